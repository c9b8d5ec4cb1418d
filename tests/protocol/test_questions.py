"""Questions in a live study: nobody waits for them, they are answered, and the log is replayed."""

import numpy as np
import pytest
from tests.protocol.test_lost_sites import Course
from tests.protocol.test_trial import reported
from tests.support import first_quick

from parley.errors import IllegalMove, InvalidInput
from parley.protocol import Stage, freeze_preview, replay, verify_log
from parley.protocol.events import AgentFrozen, ReportAccepted
from parley.protocol.messages import StudyMessage
from parley.text.status import OutcomeStatus

# Arm 1 is best for everybody; three sites, and a question of all of them.
WEIGHTS = ((0.6, 0.2, 0.2, 0.3), (0.2, 0.6, 0.2, 0.4), (0.2, 0.2, 0.6, 0.3), (0.0, 0.0, 0.0, 0.0))


def course(policy="evidence", **more):
    return Course(policy, agents=4, weights=WEIGHTS, asks_only=("agent 4",), **more)


@pytest.mark.parametrize("policy", first_quick("evidence", "wcpe", "uniform"))
def test_nobody_waits_for_a_question_and_it_has_its_answer_in_a_log_that_replays(policy):
    run = course(policy)
    assert run.trial.awaited == ("agent 1", "agent 2", "agent 3")
    last = run.to_the_end()
    assert last.stage is Stage.FINISHED
    certificate = run.certify()
    assert certificate.answers == {f"agent {place}": ["arm 1"] for place in (1, 2, 3, 4)}
    assert replay(run.events).stage is Stage.FINISHED
    verify_log(run.chain(run.events))
    assert not np.array(certificate.state["counts"])[:, 3].any()


def test_a_question_cannot_be_frozen_and_takes_no_report():
    run = course()
    with pytest.raises(IllegalMove, match="'agent 4' is not an agent that can be frozen"):
        run.let(AgentFrozen(agent="agent 4", reason="x", consequences=""))
    with pytest.raises(IllegalMove, match="asks nothing of 'agent 4'"):
        run.let(ReportAccepted(report=reported(run.trial, 3)))
    with pytest.raises(InvalidInput, match="an agent of the study that draws"):
        freeze_preview(run.trial, "agent 4")


def test_a_question_is_re_weighed_without_a_lost_site():
    run = course()
    run.phase()
    run.freeze("agent 3")
    run.reweigh()
    assert np.array(run.trial.study.weights)[:, 3] == pytest.approx([3 / 7, 4 / 7, 0, 0])
    last = run.to_the_end()
    assert last.ends["agent 4"].answered
    assert last.ends["agent 3"] is OutcomeStatus.LEFT
    replay(run.events)


def test_a_site_that_asks_nothing_is_drawn_and_has_no_answer():
    run = course(draws_only=("agent 1", "agent 2"))
    assert run.trial.awaited == ("agent 1", "agent 2", "agent 3")
    last = run.to_the_end()
    assert last.ends["agent 1"] is OutcomeStatus.UNASKED
    certificate = run.certify()
    assert set(certificate.answers) == {"agent 3", "agent 4"}
    assert certificate.complete
    assert certificate.ends is None
    verify_log(run.chain(run.events))


def test_the_question_goes_on_when_the_only_site_that_asks_is_lost():
    """Whoever asks nothing has a copy of another's question: of one that is still asked."""
    run = course(draws_only=("agent 2", "agent 3"))
    run.phase()
    run.freeze("agent 1")
    run.reweigh()
    last = run.to_the_end()
    assert last.stage is Stage.FINISHED
    assert last.ends["agent 4"].answered
    assert last.ends["agent 1"] is OutcomeStatus.LEFT
    replay(run.events)


def test_weights_in_doubt_end_with_a_map_in_the_certificate():
    weights = np.zeros((6, 6))
    for place, alpha in enumerate((0.5, 0.3, 0.7)):
        weights[:2, 2 * place : 2 * place + 2] = alpha * np.eye(2) + (1 - alpha) / 2
    further = tuple(f"agent {place}" for place in (3, 4, 5, 6))
    # By site: at 0.3 and at 0.7, as the study file orders them.
    order = [0, 1, 2, 4, 3, 5]
    message = {"weights": tuple(map(tuple, weights[:, order].tolist())), "asks_only": further}
    run = Course(agents=6, **message, weight_steps=("low", "middle", "high"), tolerance=0.3)
    run.to_the_end()
    certificate = run.certify()
    assert [one["agent"] for one in certificate.map] == ["agent 1", "agent 2"]
    first = certificate.map[0]
    assert [step["question"] for step in first["steps"]] == ["agent 3", "agent 1", "agent 4"]
    assert [step["arms"] for step in first["steps"]] == [certificate.answers[f"agent {place}"] for place in (3, 1, 4)]
    assert first["ranges"][0]["from"] == "low"
    verify_log(run.chain(run.events))


def test_steps_that_no_question_asks_are_refused():
    with pytest.raises(InvalidInput, match="weight_steps: found 2 steps"):
        StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform",
                     tolerance=0.1, weight_steps=("low", "high"))  # fmt: skip
