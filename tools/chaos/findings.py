"""Compare the log of every study with what its agents were told; flaws are counted, not asserted."""

from collections import Counter

from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.ledger import walk

FLAWS = ("lost", "unacknowledged", "duplicated", "double_advances", "broken_chains", "unfinished")


def examine(storage, studies, receipts):
    """Count the flaws of `studies`; `receipts` holds the acknowledged reports, by (study, phase, agent).

    A report is lost if it was acknowledged but is not in the log under its receipt, and duplicated if it is there
    twice. It is unacknowledged if it is in the log but its agent, which retried until it got an answer, has no receipt.
    A phase that was decided twice is a double advance. A chain is broken if it does not verify, if its decisions do not
    follow from its reports, or if it lacks a receipt.
    """
    flaws = Counter(dict.fromkeys(FLAWS, 0))
    for study in studies:
        mine = {(phase, name): receipt for (of, phase, name), receipt in receipts.items() if of == study}
        found = verify_stored(storage, study, mine.values())
        flaws["broken_chains"] += found is None or not found.sound
        flaws["unfinished"] += found is None or found.stage != "finished"
        accepted, closed, heads = Counter(), Counter(), set()
        for record in storage.read(lambda connection, study=study: list(walk(connection, study))):
            if record.kind == "report-accepted":
                place = record.payload["report"]["phase"], record.payload["report"]["agent"]
                accepted[place] += 1
                heads.add((place, record.sequence, record.hash))
            elif record.kind == "phase-closed":
                closed[record.payload["decision"]["phase"]] += 1
        flaws["lost"] += sum((place, held.sequence, held.head) not in heads for place, held in mine.items())
        flaws["unacknowledged"] += len(accepted.keys() - mine.keys())
        flaws["duplicated"] += sum(count - 1 for count in accepted.values())
        flaws["double_advances"] += sum(count - 1 for count in closed.values())
    return dict(flaws)
