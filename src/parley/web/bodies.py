"""Reading the bodies of responses to Parley's own requests."""

from collections.abc import AsyncIterable


async def at_most(size: int, parts: AsyncIterable[bytes]) -> bytes:
    """Read a body from its parts, and stop once it has more than `size` bytes, since a sender may never end."""
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > size:
            break
    return bytes(found)
