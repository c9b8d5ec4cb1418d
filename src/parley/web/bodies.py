"""Reading the bodies of responses to our own requests."""

from collections.abc import AsyncIterable


async def at_most(size: int, parts: AsyncIterable[bytes]) -> bytes:
    """The body joined from its parts; reading stops after `size` bytes, since a sender may never end."""
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > size:
            break
    return bytes(found)
