"""Reports that are adjusted for a covariate: admitted, logged, replayed."""

import numpy as np
import pytest
from msgspec import structs
from tests.protocol.support import study_message
from tests.protocol.test_golden_endings import Adjusted
from tests.protocol.test_trial import reported

from parley.errors import ImpossibleReport
from parley.protocol import Decision, Report, apply, check_adjustment, create, verify_log
from parley.protocol.events import ReportAccepted

UNKNOWN = {"kind": "gaussian", "scale": "unknown", "guess": 1.0}
RANGE = {"kind": "bounded", "low": 0.0, "high": 1.0, "method": "variance"}


def study(noise=UNKNOWN, **more):
    return study_message(agents=2, arms=2, policy="evidence", noise=noise, covariate="age", **more)


def sent(message, **slope):
    return structs.replace(reported(create("s", message), 1), **slope)


@pytest.mark.parametrize(
    ("message", "slope"),
    [
        (study(), {"theta": 0.0}),
        (study(), {"theta": -3.5, "x0": 60.0, "missing_x": 1}),
        (study(), {"theta": 0.0, "left": 0.5}),
        (study(covariate_center=60.0), {"theta": 0.0, "x0": 60.0}),
        (study(RANGE, covariate_range=[20, 80]), {"theta": 1 / 60, "x0": 20.0}),
        (study(covariate_theta=[0.1, 0.3], covariate_center=60.0), {"theta": 0.3, "x0": 60.0}),
    ],
)
def test_what_a_report_may_say_is_taken(message, slope):
    check_adjustment(sent(message, **slope), message.problem)


@pytest.mark.parametrize(
    ("message", "slope", "words"),
    [
        (study(), {}, "theta: found None; allowed: a number: rewards are adjusted for age"),
        (study(), {"theta": float("nan")}, "theta: found nan"),
        (study(), {"theta": 1.0}, "x0: found nothing; allowed: a number, with a theta that is not 0"),
        (study(), {"theta": 1.0, "x0": float("inf")}, "x0: found inf"),
        (study(), {"theta": 0.0, "missing_x": 10**9}, "missing_x: found 1000000000; allowed: at most"),
        (study(), {"theta": 0.0, "left": 0.0}, "left: found 0.0; allowed: a number from 0.01 to 100"),
        (study(), {"theta": 0.0, "left": float("nan")}, "left: found nan"),
        (
            study(covariate_theta=0.3, covariate_center=60.0),
            {"theta": 0.3, "x0": 60.0, "left": 0.5},
            "left: found 0.5; allowed: nothing: the study states theta",
        ),
        (study_message(agents=2), {"left": 0.5}, "left: found 0.5; allowed: nothing: the study has no covariate"),
        (study(covariate_center=60.0), {"theta": 0.0}, "x0: found nothing"),
        (study(covariate_center=60.0), {"theta": 1.0, "x0": 61.0}, "x0: found 61.0; allowed: 60"),
        (
            study(RANGE, covariate_range=[20, 80]),
            {"theta": 0.02, "x0": 50.0},
            "theta: found 0.02; allowed: from -0.0166667",
        ),
        (
            study(RANGE, covariate_range=[20, 80]),
            {"theta": 0.0, "x0": 90.0},
            "x0: found 90.0; allowed: a number from 20",
        ),
        (study(covariate_theta=0.3, covariate_center=60.0), {"theta": 0.2, "x0": 60.0}, "0.3, as the study states it"),
        (study_message(agents=2), {"theta": 0.0}, "theta: found 0.0; allowed: nothing: the study has no covariate"),
        (study_message(agents=2), {"x0": 1.0}, "x0: found 1.0; allowed: nothing"),
        (study_message(agents=2), {"missing_x": 1}, "missing_x: found 1; allowed: nothing"),
    ],
)
def test_a_report_says_how_it_is_adjusted_within_what_the_study_allows(message, slope, words):
    with pytest.raises(ImpossibleReport, match=words):
        check_adjustment(sent(message, **slope), message.problem)


def test_a_log_replays_and_other_slopes_than_those_of_the_reports_show():
    course = Adjusted()
    course.to_the_end()
    course.certify()
    found = course.verified()
    assert len(course.trial.past) > 1
    for place, event in enumerate(course.events):
        if isinstance(getattr(event, "decision", None), Decision):
            other = structs.replace(event.decision, theta=(0.5, 0.5))
            course.events[place] = structs.replace(event, decision=other)
            break
    broken = verify_log(course.chain(course.events))
    assert not broken.sound
    assert "theta" in broken.problem
    assert found.sound


def test_a_report_without_its_slope_is_not_admitted_to_the_log():
    course = Adjusted()
    bare = reported(course.trial, 0)
    with pytest.raises(ImpossibleReport, match="theta"):
        course.let(ReportAccepted(report=bare))


def test_means_that_move_with_the_slope_hold_no_report_and_give_no_warning():
    """What was learned of variances and skew begins anew when theta changes."""
    course = Adjusted()
    course.phase()
    assert course.trial.against is None


def test_a_report_reads_back_as_it_was_written():
    report = sent(study(), theta=0.1 + 0.2, x0=1 / 3, left=2 / 3, missing_x=2)
    again = Report.read(report.text)
    assert (again.theta, again.x0, again.left, again.missing_x) == (0.1 + 0.2, 1 / 3, 2 / 3, 2)
    assert again.totals.left.tolist() == [2 / 3] * 2
    assert "theta" not in sent(study_message(agents=2)).text


def test_a_site_that_expects_less_scatter_is_asked_for_fewer_draws():
    """Nothing but the plan depends on it: evidence is by the phase's own scatter."""
    plans = []
    for left in (None, 1.0, 0.2):
        trial = create("s", study())
        for place in range(2):
            counts = np.array(trial.plan.draws(place))
            sums = counts * [0.3, 0.0]
            report = reported(trial, place, sums, sums**2 / counts + counts)
            report = structs.replace(report, theta=0.0, left=left)
            trial = apply(trial, ReportAccepted(report=report))
        plans.append(trial.step().plan.array)
    assert (plans[0] == plans[1]).all()
    assert (plans[2] < plans[1]).all()
