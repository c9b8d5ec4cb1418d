"""The command line as a user meets it: output and exit status."""

import io
import json
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

import pytest

from parley.cli.main import COMMANDS, run
from parley.hooks import commands_of_edges

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def started(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A process of its own, as a terminal starts it."""
    return subprocess.run([sys.executable, "-m", "parley", *arguments], capture_output=True, text=True, check=False)


def parley(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The console script without a new interpreter, which takes longer to start than most commands to run."""
    out, err = io.StringIO(), io.StringIO()
    here, told = patch.object(sys, "argv", ["parley", *arguments]), pytest.raises(SystemExit)
    with here, chdir(cwd or Path.cwd()), redirect_stdout(out), redirect_stderr(err), told as ended:
        run()
    return subprocess.CompletedProcess(arguments, ended.value.code, out.getvalue(), err.getvalue())


def as_json(*arguments: str) -> dict:
    done = parley(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture
def in_process():
    """Gives status, out, err."""

    def call(*arguments: str) -> tuple[int, str, str]:
        done = parley(*arguments)
        return done.returncode, done.stdout, done.stderr

    return call


def test_help_lists_every_command_and_each_has_its_own(in_process):
    shown = started("--help").stdout
    for name in (*COMMANDS, *commands_of_edges()):
        assert name in shown
        status, out, _ = in_process(name, "--help")
        assert status == 0
        assert "Usage:" in out
        assert "\\b" not in out


def test_bounds_of_the_two_by_two_example():
    assert as_json("bounds", str(EXAMPLES / "two-by-two.toml"))["bai"]["value"] == pytest.approx(27.75855, abs=5e-6)
    alone = as_json("bounds", str(EXAMPLES / "two-alone.toml"))
    assert alone["bai"]["value"] == pytest.approx(101.38889, abs=5e-6)
    for key in ("bai", "bai_relaxed", "regret", "regret_relaxed"):
        assert alone[key]["gap"] <= 1e-8
        assert len(alone[key]["allocation"]) == 2


def test_bounds_for_people():
    shown = parley("bounds", str(EXAMPLES / "paper.toml"), "--allocation").stdout
    assert "768.03979" in shown
    assert "Optimal allocation" in shown


def test_bounds_tell_what_regret_until_a_horizon_costs(tmp_path):
    found = as_json("bounds", str(EXAMPLES / "play.toml"))["regret_until"]
    assert [one["horizon"] for one in found] == [100_000], "the study's own"
    assert found[0]["value"] == pytest.approx(found[0]["log_bound"])
    asked = as_json("bounds", str(EXAMPLES / "paper.toml"), "--horizon", "20", "--horizon", "1000")["regret_until"]
    assert [one["value"] < one["log_bound"] for one in asked] == [True, False]
    assert as_json("bounds", str(EXAMPLES / "paper.toml"))["regret_until"] == []
    study = tmp_path / "tie.toml"
    study.write_text('arms = 2\nagents = 2\nhorizon = 100000\n[weights]\nkind = "matrix"\n'
                     'matrix = [[0.0,0.5],[1.0,0.5]]\n[truth]\nmeans = [[2,0],[0,0]]\n', encoding="utf-8")  # fmt: skip
    document = as_json("bounds", str(study))
    assert document["bai"] is document["regret"] is document["regret_until"][0]["log_bound"] is None
    assert document["regret_until"][0]["value"] == pytest.approx(5.756, abs=1e-3)
    shown = parley("bounds", str(study)).stdout
    assert "infinite" in shown
    assert "50,000.0" in shown


def test_bounds_promise_nothing_for_wcpe_where_it_refuses_to_run(tmp_path):
    study = str(EXAMPLES / "hospitals.toml")
    assert as_json("bounds", study)["wcpe_guarantee"] is None
    assert "W-CPE is proven" not in parley("bounds", study).stdout
    study = tmp_path / "adjusted.toml"
    study.write_text('arms = 2\nagents = 2\n[noise]\nkind = "binary"\n[covariate]\nname = "x"\nrange = [0, 1]\n'
                     '[truth]\nmeans = [[0.9, 0.8], [0.1, 0.5]]\n', encoding="utf-8")  # fmt: skip
    assert as_json("bounds", str(study))["wcpe_guarantee"] is None


def test_simulate_json_has_the_keys_others_rely_on():
    document = as_json(
        "simulate", str(EXAMPLES / "paper.toml"), "--policy", "wcpe", "--replications", "200", "--seed", "4"
    )
    assert document["policy"] == "wcpe"
    assert document["replications"] == 200
    assert document["seed"] == 4
    assert document["cost"]["mean"] / document["lower_bound"] == pytest.approx(document["ratio"])
    assert {"mean", "std"} <= set(document["cost"])
    assert {"rounds", "error_rate", "seconds"} <= set(document)
    again = as_json(
        "simulate", str(EXAMPLES / "paper.toml"), "--policy", "wcpe", "--replications", "200", "--seed", "4"
    )
    assert again["cost"] == document["cost"]


@pytest.mark.simulations
def test_a_minimum_cell_is_honoured_and_told(in_process, tmp_path):
    study = tmp_path / "study.toml"
    text, few = (EXAMPLES / "paper.toml").read_text(), ("--replications", "4")
    found = {}
    for cell in (1, 400):
        study.write_text(f"{text}\n[privacy]\nminimum_cell = {cell}\n")
        status, out, _ = in_process("simulate", str(study), *few, "--json")
        assert status == 0
        found[cell] = json.loads(out)
        assert found[cell]["minimum_cell"] == cell
    plain = json.loads(in_process("simulate", str(EXAMPLES / "paper.toml"), *few, "--json")[1])
    assert found[1]["cost"] == plain["cost"]
    assert found[400]["cost"]["min"] >= 400 * 18 > plain["cost"]["mean"]
    assert "400" in in_process("simulate", str(study), *few)[1]
    plan = ("plan", str(study), "--gap", "0.5", "--instances", "1", "--replications", "2")
    status, out, _ = in_process(*plan, "--output", str(tmp_path / "plan.html"), "--json")
    assert status == 0
    assert json.loads(out)["minimum_cell"] == 400
    assert json.loads(out)["planned_looks"] == 6
    assert min(json.loads(out)["scenarios"][0]["per_agent"]) >= 400 * 6
    assert "Every cell of a phase has either no draws or at least 400" in (tmp_path / "plan.html").read_text()
    study.write_text(f"{text}\n[privacy]\nminimum_cell = 0\n")
    status, _, err = in_process("simulate", str(study), *few)
    assert status == 2
    assert "minimum_cell: found 0; allowed: from 1 to 1,000,000" in err


def test_a_threshold_without_a_guarantee_is_labelled(tmp_path):
    study = tmp_path / "study.toml"
    text = (EXAMPLES / "paper.toml").read_text()
    head, _, truth = text.partition("[policy]")
    study.write_text(
        head + '[policy]\nname = "wcpe"\nthreshold = "heuristic"\n\n[truth]' + truth.partition("[truth]")[2]
    )
    assert "NO GUARANTEE" in as_json("simulate", str(study), "--replications", "50")["guarantee"]
    assert "NO GUARANTEE" in parley("simulate", str(study), "--replications", "50").stdout


@pytest.mark.parametrize(("policy", "says"), [("evidence", "Under drift: the same if"), ("wcpe", "Guarantee: none if")])
def test_where_means_move_the_guarantee_under_drift_is_told(in_process, tmp_path, policy, says):
    study, few = tmp_path / "study.toml", ("--policy", policy, "--replications", "2", "--max-samples", "9000")
    still = (EXAMPLES / "paper.toml").read_text()
    study.write_text(still + "\ndrift = 0.1\n")
    assert json.loads(in_process("simulate", str(study), *few, "--json")[1])["drift"].startswith(
        f"{says.split(': ')[1]} means change between phases"
    )
    said = " ".join(in_process("simulate", str(study), *few)[1].split())
    assert f"{says} means change" in said
    assert said.count("Guarantee: ") == 1
    study.write_text(still)
    assert "means change" not in in_process("simulate", str(study), *few)[1]


def test_of_a_study_whose_arms_come_and_go_the_bound_says_of_which_question_it_is(in_process, tmp_path):
    study, few = tmp_path / "study.toml", ("--replications", "2", "--max-samples", "9000")
    plain = (EXAMPLES / "paper.toml").read_text()
    study.write_text(plain)
    assert "first question" not in in_process("simulate", str(study), *few)[1]
    study.write_text(plain + '\nwithdraws = { "arm 3" = 2 }\n')
    assert "(first question)" in in_process("simulate", str(study), *few)[1]


TRUTH = "[truth]\nmeans = [[0.9, 0.8], [0.4, 0.3], [0.1, 0.2]]\n"


@pytest.mark.parametrize(
    ("study", "says"),
    [
        ("[weights]\nkind = 'matrix'\nmatrix = [[1.5, 0], [-0.5, 1]]\n" + TRUTH, "weights: found -0.5"),
        ("[weights]\nkind = 'matrix'\nmatrix = [[nan, 0], [0.5, 1]]\n" + TRUTH, "weights: found nan"),
        ("[weights]\nkind = 'matrix'\nmatrix = [[0.5, 0], [0.4, 1]]\n" + TRUTH, "column 0 sums to 0.9"),
        ("[weights]\nkind = 'matrix'\nmatrix = [[1, 0, 0], [0, 1, 0]]\n" + TRUTH, "a matrix of 2 x 3"),
        ("[weights]\nkind = 'matrix'\nmatrix = [[1]]\n" + TRUTH, "1 x 1 for 2 agents"),
        ("delta = 0\n" + TRUTH, "delta: found 0.0"),
        ("delta = 1\n" + TRUTH, "delta: found 1.0"),
        ("top = 0\n" + TRUTH, "top: found 0"),
        ("top = 3\n" + TRUTH, "top: found 3; allowed: at least 1 and less than the number of arms, 3"),
        ("[noise]\nscale = 0\n" + TRUTH, "noise.scale: found 0"),
        ("[noise]\nscale = -2.0\n" + TRUTH, "noise.scale: found -2.0"),
        ("[truth]\nmeans = [[0.9, 0.8], [0.9, 0.3], [0.1, 0.2]]\n", "every lower bound is infinite"),
        ("[truth]\nmeans = [[0.9, 0.8], [0.4, 0.3]]\n", "2 rows of 2 columns; allowed: 3 rows"),
        ("[policy]\nname = 'wpce'\n" + TRUTH, "policy: found 'wpce'; allowed: one of"),
        ("[policy]\nname = 'wcpe'\nspeed = 2\n" + TRUTH, "option of the policy wcpe: found 'speed'"),
        ("colour = 'red'\n" + TRUTH, "key: found 'colour'"),
        (
            "[policy]\nname = 'pf-ucb-bai'\n[weights]\nkind = 'matrix'\nmatrix = [[0.9, 0.3], [0.1, 0.7]]\n" + TRUTH,
            "pf-ucb-bai",
        ),
        ("", "a study without a [truth] section"),
        ("[truth]\n", "truth: found an empty section"),
        (
            "largest_gap = 1\n[truth]\nmeans = [[100.0, 100.0], [50.0, 50.0], [0.0, 0.0]]\n",
            "largest_gap: found 1 with means that are 100 apart; allowed: at least 100. Leave it out",
        ),
        ("budget = 900\n" + TRUTH, "Did you mean max_samples?"),
        ("[truth]\ngenerate = 'paper'\nseed = -1\n", "truth.seed: found -1"),
        ("[truth]\ngenerate = 'paper'\nmin_gap = -1.0\n", "truth.min_gap: found -1.0"),
        (
            "[noise]\nkind = 'bounded'\nlow = 0\nhigh = 1\n[truth]\ngenerate = 'paper'\n",
            "truth.generate: found means from",
        ),
        ("[weights]\nkind = 'population'\nshares = [1, 2, 3]\n" + TRUTH, "weights.shares: found 3 for 2 agents"),
        ("[weights]\nkind = 'clusters'\nlabels = ['a']\n" + TRUTH, "weights.labels: found 1 for 2 agents"),
        ("[weights]\nkind = 'similarity'\nmatrix = [[1, 0], [0, 1]]\nkernel = 'rbf'\n" + TRUTH, "only with features"),
        ("[weights]\nkind = 'matrix'\nmatrix = [[1, 0], [0, 1]]\nfile = 'w.csv'\n" + TRUTH, "only one of matrix, file"),
        ("largest_gap = 1" + "0" * 400 + "\n" + TRUTH, "largest_gap: found something that is not a number"),
        ("delta = 0." + "0" * 320 + "1\n" + TRUTH, "delta: found"),
        ("x = " + "[" * 3000 + "\n", "TOML: found"),
        ("x = " + "1" * 5000 + "\n", "TOML: found"),
        ("arms = [", "TOML: found"),
    ],
)
def test_bad_input_is_one_clear_message_and_status_2(in_process, tmp_path, study, says):
    path = tmp_path / "study.toml"
    path.write_text("arms = 3\nagents = 2\n" + study if study != "arms = [" else study)
    for command in (("simulate", "--replications", "10"), ("bounds",)):
        if command[0] == "bounds" and "policy" in study:
            continue
        status, out, err = in_process(command[0], str(path), *command[1:])
        assert status == 2, (out, err)
        assert says in err
        assert out == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bounds", "nowhere.toml"), "no file at nowhere.toml"),
        (("simulate", str(EXAMPLES / "paper.toml"), "--policy", "nope"), "policy: found 'nope'"),
        (("simulate", str(EXAMPLES / "paper.toml"), "--replications", "0"), "replications: found 0"),
        (("simulate", str(EXAMPLES / "paper.toml"), "--replications", "many"), "not a valid integer"),
        (("simulate", str(EXAMPLES / "paper.toml"), "--environment", "mars"), "environment: found 'mars'"),
        (("bounds", str(EXAMPLES / "paper.toml"), "--accuracy", "2"), "accuracy: found 2.0"),
        (("launch",), "No such command"),
    ],
)
def test_bad_arguments_exit_with_2(arguments, says):
    for done in (parley(*arguments), *([started(*arguments)] if arguments[0] == "bounds" else [])):
        assert done.returncode == 2
        assert says in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    assert "_PARLEY_COMPLETE" in parley("completion", shell).stdout


def test_the_demo_tells_the_course_and_writes_a_page_that_needs_no_other_host(tmp_path):
    done = parley("demo", "--replications", "50", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Phase 1" in done.stdout
    assert "is out for agent" in done.stdout
    assert "wcpe" in done.stdout
    page = (tmp_path / "parley-demo.html").read_text()
    assert page.count("<svg") == 2  # light and dark
    assert "<script" not in page
    assert "src=" not in page
    assert "parley-demo.html" in done.stdout


def test_the_demo_on_ones_own_study_escapes_its_names(tmp_path):
    study = tmp_path / "mine.toml"
    names = '["<b>x</b>", "y", "z"]'
    study.write_text(
        f'name = "<i>s</i>"\narms = {names}\nagents = 2\n[truth]\nmeans = [[0.9, 0.9], [0.1, 0.1], [0, 0]]\n'
    )
    done = parley("demo", "--study", str(study), "--replications", "20", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["answers"] == {"agent 1": ["<b>x</b>"], "agent 2": ["<b>x</b>"]}
    assert document["correct"] is True
    page = (tmp_path / "parley-demo.html").read_text()
    assert "<b>x</b>" not in page
    assert "<i>s</i>" not in page
    done = parley("demo", "--study", str(study), "--replications", "20", "--output", str(tmp_path / "no" / "way.html"))
    assert done.returncode == 2
    assert "--output: found" in done.stderr


def test_names_are_text_whatever_they_look_like(in_process, tmp_path):
    study = tmp_path / "[bold]odd.toml"
    study.write_text(
        "name = '[/bold] [red]'\narms = ['[/a]', '[b]', ':smile:']\nagents = ['[/]', '\\\\[x]']\n" + TRUTH,
        encoding="utf-8-sig",
    )
    for command in (("bounds", "--allocation"), ("simulate", "--replications", "5")):
        status, out, err = in_process(command[0], str(study), *command[1:])
        assert status == 0, err
        assert "[/bold] [red]" in out
    status, out, _ = in_process("bounds", str(study), "--allocation")
    assert "[/a]" in out
    status, _, err = in_process("bounds", str(tmp_path / "[no].toml"))
    assert status == 2
    assert "[no].toml" in err


@pytest.mark.parametrize(
    ("options", "says"),
    [(("--seed", "-1"), "seed: found -1"), (("--chunk", "0"), "chunk: found 0")],
)
def test_bad_numbers_of_simulate(in_process, options, says):
    status, _, err = in_process("simulate", str(EXAMPLES / "paper.toml"), "--replications", "5", *options)
    assert status == 2
    assert says in err


def test_a_fault_of_ours_is_one_line_too(in_process, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("parley.cli.simulate.simulate", broken)
    status, out, err = in_process("simulate", str(EXAMPLES / "paper.toml"))
    assert status == 1
    assert "RuntimeError: boom" in err
    assert "Traceback" not in out + err
