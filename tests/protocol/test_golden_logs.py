"""Logs that were sound when they were written stay sound: what is asked of a report may grow, what was taken stands."""

from pathlib import Path

import numpy as np
import pytest
from tests.protocol.support import study_message
from tests.protocol.test_minimum_cell import logged

from parley.protocol import Report, Stage, apply, create, read_log, verify_log
from parley.protocol.certificates import issue_certificate
from parley.protocol.events import Certified, PhaseClosed, ReportAccepted, StudyCreated
from parley.totals import Totals

GOLDEN = Path(__file__).parents[1] / "golden" / "protocol"
STUDIES = {
    "gaussian": study_message(2, 2, "wcpe"),
    "bounded": study_message(2, 2, "evidence", noise={"kind": "bounded", "low": -0.3, "high": 0.9}),
    "constant": study_message(2, 2, "uniform"),  # every reward of an arm is the same: the squares are at their least
}


@pytest.mark.parametrize("name", STUDIES)
def test_golden_logs_stay_sound(name):
    """To add one: python -m tests.protocol.test_golden_logs, which never rewrites one that is there."""
    found = verify_log(read_log((GOLDEN / f"log-{name}.ndjson").read_text(encoding="utf-8").splitlines()))
    assert found.sound, found.problem
    assert found.stage == "finished"
    assert found.certificate is not None


def rewards(name, generator, count, arm):
    if name == "constant":
        return [0.7 - 0.6 * arm] * count
    if name == "bounded":
        return np.where(generator.random(count) < 0.8 - 0.5 * arm, 0.9, -0.3).tolist()
    return (0.9 - 0.8 * arm + generator.standard_normal(count)).tolist()


def written(name):
    """The records of a whole study with real rewards."""
    message, generator = STUDIES[name], np.random.default_rng(1)
    trial = create("s", message)
    events = [StudyCreated(study_id="s", study=message, plan=trial.plan)]
    while trial.stage is not Stage.FINISHED:
        for agent in trial.awaited:
            draws = trial.plan.draws(message.agents.index(agent))
            totals = Totals.of([rewards(name, generator, count, arm) for arm, count in enumerate(draws)])
            report = Report.of(totals, study="s", phase=trial.phase, agent=agent, plan=trial.plan.digest)
            events.append(ReportAccepted(report=report))
            trial = apply(trial, events[-1])
        step = trial.step()
        events.append(step.event)
        trial = trial.close(step)
    data = [event.decision.data for event in events if isinstance(event, PhaseClosed)]
    last = logged(events)[-1]
    certificate = issue_certificate(trial, data=data, sequence=last.sequence, head=last.hash, version="0.1.0")
    return logged([*events, Certified(certificate=certificate)])


if __name__ == "__main__":
    for name in STUDIES:
        path = GOLDEN / f"log-{name}.ndjson"
        if not path.exists():
            path.write_text("".join(record.text + "\n" for record in written(name)), encoding="utf-8")
