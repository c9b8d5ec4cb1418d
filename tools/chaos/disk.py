"""The possible contents of a disk after a power failure, from the journal of requests to the disk.

Synced data is on disk. Later writes, truncations, creations and deletions may have happened in any combination: none,
all, a prefix, or any subset. Of a single write, any of its sectors may be there, or be garbage. Sectors outside a write
are never damaged by it ("powersafe overwrite", which SQLite relies on too). A file may have grown, with zeros, by a
write that was lost. Writes to the same sector keep their order: losing the later ones leaves an earlier one.
"""

from itertools import pairwise

SECTOR = 512
STYLES = ("none", "all", "first", "some", "sectors", "garbage")


def _put(content, offset, data):
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset, data):
    """A write, split at the sector boundaries of the disk."""
    first = SECTOR - offset % SECTOR
    cuts = [0, *range(first, len(data), SECTOR), len(data)]
    return [(offset + start, data[start:end]) for start, end in pairwise(cuts)]


class Disk:
    """A folder on a disk with a volatile cache; `take` the events of a journal, `lose_power` at any time."""

    def __init__(self):
        self.synced, self.waiting = {}, {}  # file -> synced content; file -> later writes and truncations
        self.entries, self.moves = {}, []  # name -> file, as synced; later creations and deletions

    def take(self, event):
        if event.kind in ("write", "truncate"):
            self.waiting[event.file].append(event)
        elif event.kind == "sync":
            for write in self.waiting[event.file]:
                self._apply(self.synced[event.file], write)
            self.waiting[event.file] = []
        elif event.kind == "create":
            self.synced[event.file], self.waiting[event.file] = bytearray(), []
            self.moves.append((event.name, event.file))
        elif event.kind == "delete":
            self.moves.append((event.name, None))
        elif event.kind == "directory":
            self.entries.update(self.moves)
            self.moves = []

    def lose_power(self, style, generator):
        """The files of one possible state after a power failure, by name."""
        entries, chance = dict(self.entries), generator.random()
        for changed in dict(self.moves):  # each name independently: only a sync orders changes of two names
            moves = [move for move in self.moves if move[0] == changed]
            entries.update(moves[: self._first(style, len(moves), generator)])
        return {
            name: self._content(file, style, chance, generator) for name, file in entries.items() if file is not None
        }

    @staticmethod
    def _first(style, count, generator):
        return {"none": 0, "all": count}.get(style, generator.randint(0, count))

    @staticmethod
    def _apply(content, event):
        if event.kind == "truncate":
            del content[event.offset :]
        else:
            _put(content, event.offset, event.data)

    def _content(self, file, style, chance, generator):
        content, waiting = bytearray(self.synced[file]), self.waiting[file]
        if style in ("none", "all", "first"):
            for event in waiting[: self._first(style, len(waiting), generator)]:
                self._apply(content, event)
            return bytes(content)
        grown = generator.random() < 0.5
        for event in waiting:
            if event.kind == "truncate" or style == "some":
                if generator.random() < chance:
                    self._apply(content, event)
            else:
                for offset, data in _sectors(event.offset, event.data):
                    if generator.random() < chance:
                        _put(content, offset, data)
                    elif style == "garbage" and generator.random() < 0.5:
                        _put(content, offset, generator.randbytes(len(data)))
            if event.kind == "write" and grown:
                content.extend(bytes(max(0, event.offset + len(event.data) - len(content))))
        return bytes(content)
