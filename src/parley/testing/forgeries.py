"""Ways to tamper with a log. `parley verify` must notice each; to notice a cut or rewritten log, it needs receipts."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from parley.protocol import Receipt, Record, Report


def receipts_of(records: Sequence[Record]) -> list[Receipt]:
    """The receipts that agents got for the accepted reports of a log."""
    accepted = [record for record in records if record.kind == "report-accepted"]
    return [
        Receipt.of(Report.from_json(record.payload["report"]), sequence=record.sequence, head=record.hash)
        for record in accepted
    ]


def tampered(records: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Yield tampered copies of a log, each with a description of the change.

    Every copy but the last has one change: a field of one record is altered, one record is removed (not the last), two
    neighbours are swapped, or the log is cut at a point before its last accepted report. The last copy is `rewritten`.
    """
    for place, record in enumerate(records):
        changes = {
            "actor": replace(record, actor="somebody else"),
            "time": replace(record, at="2001-01-01T00:00:00Z"),
            "payload": replace(record, payload={**record.payload, "extra": 1}),
            "hash": replace(record, hash="0" * 64),
            "kind": replace(record, kind="paused"),
        }
        for what, other in changes.items():
            yield f"{what} of record {place + 1}", [*records[:place], other, *records[place + 1 :]]
        if place < len(records) - 1:
            yield f"record {place + 1} removed", [*records[:place], *records[place + 1 :]]
            moved = [*records[:place], records[place + 1], record, *records[place + 2 :]]
            yield f"record {place + 1} moved", moved
    last = max(record.sequence for record in records if record.kind == "report-accepted")
    for end in range(1, last):
        yield f"cut after record {end}", list(records[:end])
    yield "rewritten with other numbers and new hashes", rewritten(records)


def rewritten(records: Sequence[Record]) -> list[Record]:
    """A consistent log with other sums of squares, as an operator could forge it; only receipts reveal the forgery."""
    forged: list[Record] = []
    for record in records:
        payload = dict(record.payload)
        if record.kind == "report-accepted":
            report = dict(payload["report"])
            payload["report"] = report | {"squares": [value * 1.5 for value in report["squares"]]}
        words = {"stream": record.stream, "at": record.at, "actor": record.actor, "kind": record.kind}
        forged.append(Record.after(forged[-1] if forged else None, **words, payload=payload))
    return forged
