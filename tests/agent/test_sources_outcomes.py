"""Rewards with further outcomes from every source: a column, a row or a line each; missing is counted by outcome."""

import sys

import pytest
from tests.agent.test_rows import Memory
from tests.agent.test_worker import make, plan

from parley.agent.outcomes import DrawnOutcome
from parley.agent.plans import NotYet
from parley.agent.sources import make_source
from parley.errors import InvalidInput
from parley.protocol import Plan

OUTCOMES = {"harm": "harm", "Pain": "vas"}
ROWS = ["x,1,0,2.5", "y,0,1,3", "x,0,missing,4", "x,1,1,NA", "y,1,0,1"]
HEADER = "arm,reward,Harm,VAS"


def write(tmp_path, rows, header=HEADER):
    file = tmp_path / "rows.csv"
    file.write_text("\n".join([header, *rows, ""]))
    return file


def drawn(delivery):
    return {one.name: (one.totals.counts.tolist(), one.totals.sums.tolist(), one.missing) for one in delivery.outcomes}


FIRST = {"harm": ([1, 1], [0.0, 1.0], (1, 0)), "Pain": ([2, 1], [6.5, 3.0], ())}


def test_a_column_for_every_outcome_and_missing_ones_are_counted(tmp_path):
    source = make(f"csv:{write(tmp_path, ROWS)}", outcomes=OUTCOMES)
    found = source(plan())
    assert found.rewards == [[1.0, 0.0], [0.0]]
    assert drawn(found) == FIRST
    assert [one.name for one in plan().report(found).outcomes] == ["harm", "Pain"]
    assert drawn(source(plan(2, (1, 1)))) == {"harm": ([1, 1], [1.0, 0.0], ()), "Pain": ([0, 1], [0.0, 1.0], (1, 0))}


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("arm,reward,harm", "x,1,0", "column vas: found 0 columns of that name"),
        (HEADER, "x,1,maybe,2", "line 2, column harm: found 'maybe'; allowed: a finite number"),
        (HEADER, "x,missing,0,2", "line 2, column reward: found 'missing'"),
    ],
)
def test_an_unknown_column_or_value_is_named(tmp_path, header, row, words):
    with pytest.raises(InvalidInput, match=words):
        make(f"csv:{write(tmp_path, [row], header)}", outcomes=OUTCOMES)(plan())


def test_a_row_waits_until_all_its_outcomes_are_there_and_may_be_filled_in(tmp_path):
    source = make(f"csv:{write(tmp_path, ['x,1,0,1', 'y,0,1,3', 'x,0,,4'])}", outcomes=OUTCOMES)
    with pytest.raises(NotYet, match="line 4 has no harm yet"):
        source(plan())
    write(tmp_path, ["x,1,0,2.5", "y,0,1,3", "x,0,missing,4", "x,1,1,"])
    assert drawn(source(plan())) == FIRST
    write(tmp_path, ["x,1,0,2.5", "y,0,1,3", "x,0,0,4", "x,1,1,1", "y,1,0,1"])
    with pytest.raises(InvalidInput, match="line 4: found x, 0, 0, 4, which was not there"):
        source(plan(2, (1, 1)))
    write(tmp_path, [*ROWS[:3], "x,1,1,7", "y,1,0,1"])
    assert drawn(source(plan(2, (1, 1))))["Pain"] == ([1, 1], [7.0, 1.0], ())


def test_without_a_memory_the_rewards_tell_which_rows_were_used(tmp_path):
    file = write(tmp_path, ROWS)
    report = plan().report(make(f"csv:{file}", outcomes=OUTCOMES)(plan()))
    source = make(f"csv:{file}", taken={1: report}.get, memory=Memory(), outcomes=OUTCOMES)
    assert drawn(source(plan(2, (1, 1))))["harm"] == ([1, 1], [1.0, 0.0], ())


def test_exposure_and_further_outcomes_do_not_go_together(tmp_path):
    file = write(tmp_path, ["x,1,0,1,3"], f"{HEADER},exposure")
    with pytest.raises(InvalidInput, match="exposure in a study with further outcomes"):
        make(f"csv:{file}", outcomes=OUTCOMES, counts=True)(plan())


def test_a_function_returns_a_row_a_draw(tmp_path, monkeypatch):
    (tmp_path / "ward_rows.py").write_text(
        "import numpy\n"
        "def rows(arm, count): return [(1.0, 0, 2.5), (0, None, 4)] if arm == 'x' else numpy.array([[0, 1, 3]])\n"
        "def flat(arm, count): return [1.0] * count\n"
        "def wide(arm, count): return [(1, 0, 2, 3)] * count\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert drawn(make("python:ward_rows:rows", outcomes=OUTCOMES)(plan())) == FIRST
    for name in ("flat", "wide"):
        with pytest.raises(InvalidInput, match="allowed: rows of 3 numbers: the reward, harm, Pain"):
            make(f"python:ward_rows:{name}", outcomes=OUTCOMES)(plan())


def test_a_program_prints_a_line_a_draw(tmp_path):
    program = tmp_path / "rows.py"
    program.write_text("import sys\nprint('1 0 2.5\\n0 missing 4\\n' if sys.argv[1] == 'x' else '0 1 3')\n")
    assert drawn(make(f"command:{sys.executable} {program}", outcomes=OUTCOMES)(plan())) == FIRST


def test_a_missing_reward_is_refused_from_every_program(tmp_path, monkeypatch):
    (tmp_path / "ward_gone.py").write_text("def rows(arm, count): return [(None, 0, 1)] * count\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InvalidInput, match="rewards of x: found None; allowed: numbers"):
        make("python:ward_gone:rows", outcomes=OUTCOMES)(plan())


def test_nobody_is_missing_where_nothing_is():
    assert DrawnOutcome.of("harm", [[1.0], []]).missing == ()


STUDY = """
arms = ["x", "y"]
agents = ["a"]
control = "x"
[truth]
means = [[0.0], [1.0]]
[truth.outcomes]
harm = [[0.0], [1.0]]
[[outcomes]]
name = "harm"
kind = "binary"
role = "guardrail"
better = "lower"
margin = 0.1
delta = 0.05
"""


SIMULATED = {
    "seed": 3,
    "whole_plan": lambda _: Plan(study="s", phase=1, quotas=((4,), (6,))),
    "taken": lambda _: None,
    "memory": Memory(),
}


def test_simulated_draws_have_every_outcome_the_same_whenever_they_are_asked_for(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    source = make_source(f"simulate:{file}", **SIMULATED)
    found = source(plan(1, (4, 6)))
    assert drawn(found) == {"harm": ([4, 6], [0.0, 6.0], ())}
    assert found.totals == source(plan(1, (4, 6))).totals
    assert source(plan(2, (4, 6))).totals != found.totals
    file.write_text(STUDY.replace("harm = [[0.0], [1.0]]", ""))
    source = make_source(f"simulate:{file}", **SIMULATED)
    with pytest.raises(InvalidInput, match=r"truth\.outcomes\.harm: found nothing"):
        source(plan(1, (4, 6)))
