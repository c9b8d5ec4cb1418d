"""Six sites, one of them frozen as docs/production.md advises: the study ends, with answers for who can have one."""

import pytest
from tests.support import first_quick
from tools.trials.six_sites import EVERYBODY, LOST, WAYS, WEIGHTS, play, told

from parley.protocol import Stage
from parley.text.status import OutcomeStatus


@pytest.mark.parametrize("which", first_quick(*WEIGHTS))
@pytest.mark.parametrize("policy", first_quick("evidence", "wcpe", "uniform"))
def test_it_ends_and_re_weighed_it_answers_the_rest(policy, which):
    weights = WEIGHTS[which]
    whole, kept, later, anew = (play(way, policy=policy, weights=weights) for way in WAYS)
    samples = told(whole)[0]
    assert told(whole)[2:] == (6, "decided")
    assert kept.trial.stage is Stage.STALLED
    assert told(kept)[2] == (0 if weights is EVERYBODY and policy == "evidence" else told(kept)[2])
    others = {name for name in kept.trial.study.agents if name not in ("agent 4", "agent 5")}
    if weights is not EVERYBODY:
        assert {name for name, end in kept.trial.ends.items() if end.answered} >= {"agent 4", "agent 5"}
        assert all(kept.trial.ends[name] is OutcomeStatus.BLOCKED for name in others) or policy != "evidence"
    for course in (later, anew):
        assert course.trial.stage is Stage.FINISHED
        ends = dict(course.trial.ends)
        assert ends.pop(LOST) is OutcomeStatus.LEFT
        assert set(ends.values()) == {OutcomeStatus.DECIDED}
    assert max(told(course)[0] for course in (kept, later, anew)) < 1.6 * samples, "bounded"
    for course in (kept, later, anew):
        course.certify()
        course.verified()
