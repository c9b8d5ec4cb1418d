"""Read the bodies of responses to Parley's own requests."""

from collections.abc import AsyncIterable


async def at_most(size: int, parts: AsyncIterable[bytes]) -> bytes:
    """Join the parts of a body, and stop reading once there are more than `size` bytes: a sender may never stop."""
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > size:
            break
    return bytes(found)
