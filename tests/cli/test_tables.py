"""Tables on narrow terminals, and words that agree with each other."""

import io
import json
import re
import sys

import pytest
from rich.console import Console
from tests.support import paper_study

from parley.cli.main import run
from parley.experiments.demo import eliminations
from parley.experiments.report_kit.tables import Table
from parley.policies import make_policy
from parley.simulation import phases

NUMBERS = ["3,261,482", "1,234,567 to 9,876,543", "12.5", "at least 98,765,432", "1.87 x"]


@pytest.mark.parametrize("width", [200, 80, 60, 40, 24])
def test_no_number_is_cut_on_any_terminal(width):
    head = ("scenario", "samples, mean", "10% to 90%", "rounds", "median alone", "saved")
    shown = Table.of_text("Plan", head, [("a prior of some spread", *NUMBERS)])
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(shown)
    text = console.export_text()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for number in re.findall(r"[\d,.]+", " ".join(NUMBERS)):
        assert number in text


def test_words_stand_left_and_numbers_right():
    made = Table.of_text("", ("arm", "beaten by", "gap"), [("1", "arm 3", "above 0"), ("2", "arm 4", "0.05")]).html()
    assert '<th scope="col">beaten by</th><th scope="col" class="num">gap</th>' in made
    assert '<td>arm 3</td><td class="num">above 0</td>' in made


@pytest.mark.parametrize("name", ["evidence", "wcpe"])
def test_the_reason_of_an_elimination_and_the_certificate_name_the_same_opponent(name):
    study = paper_study()
    policy = make_policy(name, study.problem, {}, study.instance)
    told = [
        (phase, sentence)
        for phase in phases(policy, study.instance, seed=3)
        for sentence in eliminations(policy, phase)
    ]
    assert told
    final = policy.certificate(told[-1][0].after)
    for _, sentence in told:
        arm, agent = re.findall(r"(.+) is out for (.+), mixed", sentence)[0]
        entry = next(
            entry for one in final["agents"] for entry in one["arms"] if (one["agent"], entry["arm"]) == (agent, arm)
        )
        if "opponents" in entry:
            assert all(f"of {rival}" in sentence for rival in entry["opponents"])


def called(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["parley", *arguments])
    with pytest.raises(SystemExit) as ended:
        run()
    return ended.value.code, capsys.readouterr()


def test_bounds_refuse_a_policy_that_does_not_exist(monkeypatch, capsys, tmp_path):
    study = {"arms": 2, "agents": 1}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in study.items())
    (tmp_path / "study.toml").write_text(text + '\n[policy]\nname = "wcp"\n[truth]\nmeans = [[0.5], [0.1]]\n')
    status, told = called(monkeypatch, capsys, "bounds", str(tmp_path / "study.toml"))
    assert status == 2
    assert "'wcp'" in told.err


def test_a_refused_connection_names_the_address(monkeypatch, capsys):
    monkeypatch.setenv("PARLEY_TOKEN", "parley_x_y")
    status, told = called(monkeypatch, capsys, "admin", "status", "first", "--server", "http://127.0.0.1:9")
    assert status == 1
    assert "no answer from http://127.0.0.1:9" in told.err
