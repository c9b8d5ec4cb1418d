"""What comes back over a connection that this side opened."""

from collections.abc import AsyncIterable


async def at_most(size: int, parts: AsyncIterable[bytes]) -> bytes:
    """What comes in parts. Of more than `size` bytes no further part is read: whoever sends them may never end."""
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > size:
            break
    return bytes(found)
