import pytest
from tests.protocol.support import rewards, study_message
from tests.protocol.test_trial import reported

from parley.errors import InvalidInput
from parley.protocol import Stage, apply, create, freeze_preview
from parley.protocol.events import AgentFrozen, ReportAccepted


def after_a_phase(policy, **study):
    trial = create("s", study_message(agents=3, arms=3, policy=policy, **study))
    for place in range(3):
        totals = rewards(trial.plan.draws(place), place, 1)
        trial = apply(trial, ReportAccepted(report=reported(trial, place, totals.sums, totals.squares)))
    return trial.close(trial.step())


def test_before_any_data_whoever_depends_on_the_agent_can_never_be_decided():
    trial = create("s", study_message(agents=3, arms=3))
    found = freeze_preview(trial, "agent 2")
    assert {pair.forecast for pair in found.pairs} == {"never"}
    assert found.undecided_agents == trial.study.agents
    assert "cannot finish" in found.termination


def test_who_does_not_depend_on_the_agent_is_not_touched():
    trial = create("s", study_message(agents=3, arms=3, weight=1.0))
    found = freeze_preview(trial, "agent 2")
    assert {pair.agent for pair in found.pairs if pair.forecast != "open"} == {"agent 2"}
    assert found.undecided_agents == ("agent 2",)


@pytest.mark.parametrize("policy", ["wcpe", "uniform", "evidence"])
def test_the_forecast_is_the_policys_own(policy):
    """Evidence needs fresh draws of everybody, so that a freeze blocks it; it says so, whatever the floor."""
    found = freeze_preview(after_a_phase(policy), "agent 3")
    assert found.pairs
    assert all(pair.smallest_radius is not None for pair in found.pairs), "there are data: no floor is infinite"
    if policy == "evidence":
        assert {pair.forecast for pair in found.pairs} == {"blocked"}
        assert "not expected to finish" in found.termination
    assert "kept" in found.guarantee


def test_a_freeze_that_was_said_to_end_does_end():
    """Everybody wants the same mix, to which agent 3 adds little: W-CPE goes on without it, with noise too."""
    mix = ((0.495,) * 3, (0.495,) * 3, (0.01,) * 3)
    trial = after_a_phase("wcpe", weights=mix)
    found = freeze_preview(trial, "agent 3")
    assert {pair.forecast for pair in found.pairs} == {"open"}
    assert found.undecided_agents == ()
    assert "still expected" in found.termination
    trial = apply(trial, AgentFrozen(agent="agent 3", reason="why", consequences=found.digest))
    while trial.stage is Stage.RUNNING:
        for place in (0, 1):
            totals = rewards(trial.plan.draws(place), place, trial.phase)
            trial = apply(trial, ReportAccepted(report=reported(trial, place, totals.sums, totals.squares)))
        trial = trial.close(trial.step())
        assert trial.phase < 15
    assert trial.stage is Stage.FINISHED


def test_who_cannot_be_frozen():
    trial = create("s", study_message(agents=3, arms=3))
    with pytest.raises(InvalidInput, match="an agent of the study"):
        freeze_preview(trial, "nobody")
    frozen = apply(trial, AgentFrozen(agent="agent 1", reason="why", consequences=""))
    with pytest.raises(InvalidInput, match="frozen already"):
        freeze_preview(frozen, "agent 1")
    assert freeze_preview(frozen, "agent 2").frozen == ("agent 1", "agent 2")
