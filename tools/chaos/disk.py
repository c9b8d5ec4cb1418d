"""What a disk may hold after a loss of power, from the journal of what was asked of it.

What was synced is there. Of what was written, cut, created or deleted later, anything may be: nothing, all, what came
first, any part of it, and of a write any of its sectors, which may also be garbage. Sectors outside of a write are
never harmed by it ("powersafe overwrite", which SQLite expects of a disk too). A file may have grown by a write that is
lost, by zeros. Which of several writes of one sector is there does not depend on an order beyond theirs: to lose the
later ones is to have an earlier one last.
"""

from itertools import pairwise

SECTOR = 512
STYLES = ("none", "all", "first", "some", "sectors", "garbage")


def _put(content, offset, data):
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _sectors(offset, data):
    """The parts of a write, by the sectors of the disk."""
    first = SECTOR - offset % SECTOR
    cuts = [0, *range(first, len(data), SECTOR), len(data)]
    return [(offset + start, data[start:end]) for start, end in pairwise(cuts)]


class Disk:
    """A folder on a disk with a cache that forgets; `take` the events of a journal, `lose_power` at any time."""

    def __init__(self):
        self.synced, self.waiting = {}, {}  # file -> content; file -> writes and cuts since
        self.entries, self.moves = {}, []  # name -> file; creations and deletions since

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
        """The files of one state, by name."""
        entries, chance = dict(self.entries), generator.random()
        for changed in dict(self.moves):  # each name on its own: nothing but a sync orders those of two
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
