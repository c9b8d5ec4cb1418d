"""What the log of every study says against what its agents were told, counted rather than asserted."""

from collections import Counter

from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.ledger import walk

FLAWS = ("lost", "unacknowledged", "duplicated", "double_advances", "broken_chains", "unfinished")


def examine(storage, studies, receipts):
    """Count the flaws of `studies`; `receipts` has what was acknowledged, by (study, phase, agent).

    A report is lost if it was acknowledged and is not in the log under its receipt, duplicated if it is there twice,
    unacknowledged when it is there and its agent, who asked until there was an answer, has no receipt. A phase that was
    decided twice is a double advance. A chain is broken when it does not verify, when its decisions are not those that
    its reports give, or when it lacks a receipt.
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
