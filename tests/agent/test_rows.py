"""Each row of a file once: whatever Excel makes of it, and whatever somebody does to it between two phases."""

import subprocess
import sys

import pytest
from tests.agent.test_worker import Coordinator, Memory, make, plan

from parley.agent.outbox import Outbox
from parley.agent.plans import NotYet
from parley.agent.worker import Worker
from parley.errors import Interrupted, InvalidInput, SourceFailed
from parley.totals import Totals

ROWS = ["x,1", "y,2", "x,3", "x,4", "y,5", "x,6"]
WITH_IDS = [f"{number},{row}" for number, row in enumerate(ROWS)]


def second_phase(tmp_path, before, after, header="arm,reward"):
    """What phase 2 takes of a file that was changed after phase 1 was reported."""
    file = tmp_path / "rewards.csv"
    source = make(f"csv:{file}")
    file.write_text("\n".join([header, *before, ""]))
    assert source(plan()).totals == Totals.of([[1.0, 3.0], [2.0]])
    file.write_text("\n".join([header, *after, ""]))
    return source(plan(2)).totals


@pytest.mark.parametrize(("rows", "header"), [(ROWS, "arm,reward"), (WITH_IDS, "id,arm,reward")])
def test_rows_that_are_added_below_are_the_next(tmp_path, rows, header):
    assert second_phase(tmp_path, rows[:3], rows, header) == Totals.of([[4.0, 6.0], [5.0]])


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([*reversed(ROWS)], "line 2: found x, 6, which was not there"),
        (["x,1", "x,3", "y,2", *ROWS[3:]], "line 3: found x, 3"),
        (["x,1", "y,2.5", *ROWS[2:]], "line 3: found y, 2.5"),
        (ROWS[:2], "line 4: found no more rows"),
        (ROWS[1:], "line 2: found y, 2"),
        (["x,9", *ROWS], "line 2: found x, 9"),
    ],
    ids=["reversed", "sorted", "changed", "cut", "first row gone", "row above"],
)
def test_a_sorted_changed_or_cut_file_is_refused_with_the_first_line_that_differs(tmp_path, after, words):
    with pytest.raises(InvalidInput, match=words):
        second_phase(tmp_path, ROWS, after)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ([*reversed(WITH_IDS)], "line 2: found the row '5' where '0' was, which is elsewhere now"),
        (WITH_IDS[1:], "line 2: found the row '1' where '0' was;"),
        (["0,x,1", "1,y,9", *WITH_IDS[2:]], "line 3: found y, 9"),
        ([*WITH_IDS, "3,x,7"], "line 8, column id: found '3' again, as in line 5"),
    ],
    ids=["reversed", "gone", "changed", "twice"],
)
def test_rows_with_ids_are_known_by_them(tmp_path, after, words):
    with pytest.raises(InvalidInput, match=words):
        second_phase(tmp_path, WITH_IDS, after, "id,arm,reward")


def test_a_row_that_was_not_used_may_be_corrected_if_it_has_an_id_and_filled_in_without(tmp_path):
    changed = ["0,x,1", "1,y,2", "2,x,3", "3,x,40", "4,y,5", "5,x,6"]
    assert second_phase(tmp_path, WITH_IDS, changed, "id,arm,reward") == Totals.of([[40.0, 6.0], [5.0]])
    filled = second_phase(tmp_path, ["x,1", "x,3", "x,", "y,2"], ["x,1", "x,3", "x,4", "y,2", "y,5", "x,6"])
    assert filled == Totals.of([[4.0, 6.0], [5.0]])


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfarm,reward\nx,0.5\ny,2\nx,1.5\n",
        b"Arm;Reward\r\nx;0,5\r\ny;2\r\nx;1,5\r\n",
        b"ARM\tREWARD\nx\t0,5\ny\t2,0\nx\t1.5\n",
        b'arm,reward\nx,"0,5"\n"y","2"\nx,1.5\n',
        b"date;reward ; arm\n1.1.;0,5;x\n;2;y\n;1,5; x \n\n",
    ],
    ids=["byte-order mark", "semicolons", "tabs", "quoted", "other columns"],
)
def test_files_as_people_keep_them(tmp_path, data):
    file = tmp_path / "rewards.csv"
    file.write_bytes(data)
    assert make(f"csv:{file}")(plan()).totals == Totals.of([[0.5, 1.5], [2.0]])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"arm;value\nx;1\n", "line 1, column reward: found 0 columns of that name in: arm, value"),
        (b"arm,reward\nx,1\nx,much\n", "line 3, column reward: found 'much'; allowed: a finite number"),
        (b"arm,reward\nx,nan\n", "line 2, column reward: found 'nan'"),
        (
            b'arm,reward\nx,"1,000"\n',
            "line 2, column reward: found '1,000'; allowed: a number without thousands separators",
        ),
        (b"arm,reward\nx\n", "line 2, column reward: found 1 values in this line"),
        (b"arm,reward\nx,1,2\n", "line 2, column reward: found 3 values"),
        (b"arm,reward\nX,1\n", "line 2, column arm: found 'X'; allowed: x, y"),
        (b"arm,reward\n\xe9,1\n", "line 2: found the byte 0xe9, which is not UTF-8"),
        (b"\xff\xfea\x00", "found UTF-16 text; allowed: UTF-8. Save it as `CSV UTF-8`"),
        (b'arm,reward\nx,1\nx,"1\n', "a CSV line"),
    ],
)
def test_every_error_names_file_line_column_and_value(tmp_path, data, words):
    file = tmp_path / "rewards.csv"
    file.write_bytes(data)
    with pytest.raises(InvalidInput) as told:
        make(f"csv:{file}")(plan())
    assert words in str(told.value)
    assert str(file) in str(told.value)


def test_what_it_waits_for_is_said(tmp_path):
    file = tmp_path / "rewards.csv"
    file.write_text("arm,reward\nx,1\nx,")
    with pytest.raises(NotYet, match="the last line has no line end"):
        make(f"csv:{file}")(plan())
    file.write_text("arm,reward\nx,1\nx,\nx,2\n")
    with pytest.raises(NotYet, match="line 3 has no reward yet"):
        make(f"csv:{file}")(plan())


def test_without_a_memory_the_rows_must_add_up_to_what_was_reported(tmp_path):
    file = tmp_path / "rewards.csv"
    report = plan().report(Totals.of([[1.0, 3.0], [2.0]]))
    file.write_text("\n".join(["arm,reward", *ROWS, ""]))
    assert make(f"csv:{file}", taken={1: report}.get, memory=Memory())(plan(2)).totals == Totals.of([[4.0, 6.0], [5.0]])
    file.write_text("\n".join(["arm,reward", *reversed(ROWS), ""]))
    with pytest.raises(InvalidInput, match="2 rows of x that add up to 10; allowed: the 2 that phase 1 reported"):
        make(f"csv:{file}", taken={1: report}.get, memory=Memory())(plan(2))


def test_a_sorted_file_is_refused_through_outbox_and_worker(tmp_path):
    file = tmp_path / "rewards.csv"
    rows = [f"{arm},{place}" for place in range(12) for arm in "xy"]
    file.write_text("\n".join(["arm,reward", *rows, ""]))

    class Sorting(Coordinator):
        def send(self, report, *, receipt=None):
            file.write_text("\n".join(["arm,reward", *sorted(rows), ""]))
            return super().send(report, receipt=receipt)

    with Outbox(tmp_path / "box", study="s", agent="a") as box, pytest.raises(InvalidInput, match="line 3: found x, 1"):
        Worker(Sorting(), box, make(f"csv:{file}", taken=box.report, memory=box)).run()


def test_a_failure_in_the_users_function_is_theirs_and_there_is_a_way_out(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text("def draw(arm, count):\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Outbox(tmp_path / "box", study="s", agent="a") as box:
        with pytest.raises(SourceFailed) as told:
            Worker(Coordinator(), box, make("python:theirs:draw")).run()
        words = str(told.value)
        assert "your function theirs:draw failed for the arm 'x'" in words
        assert "return 1 / 0" in words
        assert "sources.py" not in words
        assert "--draw-again 1" in words
        sys.modules["theirs"].draw = lambda _, count: [1.0] * count
        with pytest.raises(Interrupted, match="--draw-again 1"):
            Worker(Coordinator(), box, make("python:theirs:draw")).run()
        with pytest.raises(InvalidInput, match="a phase that was begun and interrupted \\(1\\)"):
            box.draw_again(2)
        box.draw_again(1)
        assert Worker(Coordinator(), box, make("python:theirs:draw")).run().stage == "finished"
    del sys.modules["theirs"]


def test_a_failing_program_is_told_as_the_users():
    source = make(f"command:{sys.executable} -c 'import sys; sys.exit(3)'")
    with pytest.raises(SourceFailed, match=r"ended with exit status 3 for the arm 'x'.*--draw-again 1"):
        source(plan())


def test_the_way_out_is_an_option_of_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "parley", "agent", "--help"], capture_output=True, text=True, check=True
    )
    assert "--draw-again" in shown.stdout
