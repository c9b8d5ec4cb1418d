"""The dossier of a protocol: what it simulates is what a study does, and page and Markdown say the same."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from markupsafe import Markup

from parley.cli.main import main
from parley.costs import StudyCosts
from parley.edges.dossier.dossier import (
    best_along,
    dossier_studies,
    error_truths,
    make_dossier,
    variations,
    watch,
)
from parley.edges.dossier.page import direction, dossier_html, dossier_markdown, span
from parley.errors import InvalidInput
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import gap_scenario, upper_bound
from parley.experiments.report_kit.prose import html_sections, token
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.simulation import simulate
from parley.study import load_study, parse_study
from parley.text.translation import reading, translated

TWO = {"arms": ["a|b", "<b>"], "agents": ["north", "south"], "weights": {"kind": "personalized", "alpha": 0.5}}


def planner(studies=200):
    return Planner(policy="evidence", options={}, replications=studies, seed=3)


def run(*words):
    with pytest.raises(SystemExit) as ended:
        main(["plan", *map(str, words)])
    assert ended.value.code == 0


def test_none_of_many_still_has_a_bound():
    assert upper_bound(0, 200) == pytest.approx(1 - 0.025 ** (1 / 200))
    assert upper_bound(3, 100) == pytest.approx(0.0852, abs=1e-4)  # the textbook's 97.5 % limit of 3 in 100


@pytest.mark.simulations
def test_what_is_watched_is_what_simulate_says():
    problem = Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], tolerance=0.1, max_samples=600)
    instance, policy = gap_scenario(problem, 0.3).instances(problem)[0], make_policy("evidence", problem)
    seen = watch(planner(60), policy, instance, "gap 0.3")
    outcome = simulate(policy, instance, replications=60, seed=3)
    whole = (outcome.chosen >= 0).all(axis=(1, 2))
    assert 0 < whole.mean() < 1, "a telling example has studies with and without all answers"
    for arm in range(3):
        assert (seen.selected[arm] >= (outcome.chosen == arm).any(axis=1).mean(axis=0)).all()
    assert seen.selected.sum(axis=0) + seen.unanswered == pytest.approx([1.0, 1.0])
    assert seen.all_hold >= 0.9
    assert [row.what for row in seen.estimates][-2:] == ["mean of the answer", "best other arm minus the answer"]
    assert all(row.rmse >= abs(row.bias) for row in seen.estimates)


def test_errors_are_looked_for_where_they_can_happen():
    study = load_study("examples/four-hospitals.toml")
    problem, truths = study.problem, error_truths(planner(), study.instance)
    gaps = {one.name: one.instances(problem)[0] for one, _ in truths}
    beyond = [gaps[f"{arm} best by 0.0525, just beyond the tolerance"] for arm in problem.arms]
    assert [int(one.mixed_means[:, 0].argmax()) for one in beyond] == [0, 1, 2], "each arm in turn, the control too"
    assert all((one.good.sum(axis=0) == 1).all() for one in beyond), "all others are bad"
    within = [one for name, one in gaps.items() if "within" in name]
    assert [one.smallest_gap for one in within] == pytest.approx([0.025, 0.0475])
    assert all(one.good.all() for one in within), "whatever is named is right"
    own = next(one for name, one in gaps.items() if "different best arms" in name)
    assert own.means.argmax(axis=0).tolist() == [0, 1, 2, 0]
    assert {many for one, many in truths if "beyond" in one.name} == {3 * planner().replications}


def test_the_last_site_is_against_all_others_and_no_question_is():
    """A question has no rewards of its own that could differ."""
    study = load_study("examples/country.toml")
    *_, (own, _), (apart, _) = error_truths(planner(), study.instance)
    assert apart.name.startswith("Lyon has one best arm and all others have another")
    assert own.instances(study.problem)[0].means[:, :3].argmax(axis=0).tolist() == [0, 1, 2]
    assert apart.instances(study.problem)[0].means[:, :3].argmax(axis=0).tolist() == [2, 2, 0]


@pytest.mark.simulations
def test_a_dossier_has_questions_where_something_is_asked_and_sites_where_something_is_drawn():
    text = dossier_markdown(make_dossier(planner(5), load_study("examples/country.toml"), [0.5]), "parley plan x")
    assert "and for 1 further question that has its own weights (country)" in text
    assert_the_first_pages_define_their_words(text)
    assert "M = 3 agents, Q = 4 questions with different weights" in text
    tables = {part.split("\n")[0]: part for part in re.split(r"^\*\*Table \d+\.\*\* ", text, flags=re.MULTILINE)[1:]}
    heads = {name: next(line for line in part.split("\n") if line.startswith("| ")) for name, part in tables.items()}
    asked = {name for name, head in heads.items() if "| country |" in head}
    drawn = {name for name, head in heads.items() if "| Lyon |" in head} - asked
    assert {name.split(" at ")[0] for name in drawn} >= {"Draws of the first phase", "True means"}
    assert any("not the arm that is best by" in name for name in drawn)
    assert any("mixed by the weights" in name for name in asked)


@pytest.mark.simulations
def test_answers_that_are_not_best_at_home_or_not_the_control_are_counted():
    problem = Problem(arms=3, weights=np.full((2, 2), 0.5), tolerance=0.5, control="arm 1")
    instance = Instance(problem=problem, means=[[0.0, 0.0], [2.0, 0.0], [0.0, 5.0]])
    seen = watch(planner(40), make_policy("evidence", problem), instance, "apart", estimated=False)
    assert seen.selected[2].tolist() == [1.0, 1.0], "the mix prefers the third by far"
    assert seen.not_own_best.tolist() == [1.0, 0.0]
    assert seen.named_instead(0).all()
    assert seen.bad == 0
    assert (seen.counts.sum(axis=1) == seen.outcome.costs).all()


@pytest.mark.simulations
def test_the_estimate_of_the_chosen_arm_is_biased_where_all_tie_and_that_of_an_arm_named_in_advance_hardly():
    problem = Problem(arms=4, weights=[[1.0]], tolerance=0.3)
    policy = make_policy("evidence", problem)
    seen = watch(planner(300), policy, Instance(problem=problem, means=np.zeros((4, 1))), "tie")
    rows = {row.what: row for row in seen.estimates}
    assert rows["mean of the answer"].bias > 5 * rows["mean of the answer"].bias_error
    assert abs(rows["mean of arm 1"].bias) < 0.5 * rows["mean of the answer"].bias
    assert rows["mean of the answer"].usual < rows["mean of the answer"].joint


def test_the_best_arm_by_the_weights_changes_where_the_lines_cross():
    problem = Problem(arms=["a", "b"], weights=[[0.75, 0.25], [0.25, 0.75]])
    found = best_along(Instance(problem=problem, means=[[0.4, 0.0], [0.0, 0.3]]))
    assert found[0].stretches == [(0.0, 1.0, ("a",))]
    # Everybody's average prefers a by 0.05, the second agent b by 0.3: b is better from 1 / 7 on.
    assert [(low, arms) for low, _, arms in found[1].stretches] == [(0.0, ("a",)), (0.143, ("b",))]


def test_variations_are_those_that_the_study_can_have():
    gaussian, binary = parse_study(TWO).problem, parse_study(TWO | {"noise": {"kind": "binary", "rate": 0.2}}).problem
    timed = parse_study(TWO | {"sampling": {"rate": 4}}).problem

    def names(problem, policy="evidence"):
        truth = gap_scenario(problem, 0.1)
        return [what for what, *_ in variations(truth, problem, make_policy(policy, problem))]

    assert "largest size" in names(gaussian.with_(max_samples=100))
    assert {"true scale", "missing outcomes"} < {*names(gaussian)}
    assert {"all rates", "guess of the rate"} < {*names(binary)}
    assert "true scale" not in names(binary)
    assert {"recruitment", "delay of outcomes"} < {*names(timed)}
    assert "missing outcomes" not in names(gaussian.with_(site_counts="exact"))


def test_markdown_becomes_escaped_html_with_tables_of_numbers_and_captions():
    words = "*A* 2 * 3, `x < 1` & <b>\n\n**Table 1.** Of <i>\n\n- two\n- three\n"
    words += "\n| a | b |\n|---|---|\n| <i> | 2 |\n\n    plan\n"
    (_, made), (_, second) = html_sections(f"## 1\n{words}\n## 2\none\n\n{token('b')}\n", {("b", 0): Markup("<hr>")})
    assert made.startswith("<p><em>A</em> 2 * 3, <code>x &lt; 1</code> &amp; &lt;b&gt;</p>")
    assert '<p class="caption"><strong>Table 1.</strong> Of &lt;i&gt;</p>' in made
    assert "<ul>\n<li>two</li>\n<li>three</li>\n</ul>" in made
    assert '<td>&lt;i&gt;</td><td class="num">2</td>' in made
    assert made.endswith("<pre><code>plan\n</code></pre>")
    assert second == "<p>one</p>\n<hr>"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["examples/three-centres.toml", "--report", "x.pdf"], "a file whose name ends in .html or .md"),
        (["examples/three-centres.toml", "--report", "nowhere/x.md"], "a file in a folder that exists"),
        (["examples/three-centres.toml", "--report", "x.md", "--gap", "0"], "the report has a row of ties anyway"),
        (["examples/play.toml", "--report", "x.md"], "a study that ends with answers"),
    ],
)
def test_what_cannot_be_reported_is_refused_before_anything_is_simulated(words, message):
    with pytest.raises(InvalidInput, match=message):
        main(["plan", *words])


def costs(right, studies=400, size=None):
    """Studies of which some share gets right answers."""
    correct = np.arange(studies) < right * studies
    samples = np.full(studies, 100)
    return ScenarioCost(
        scenario="x", study_costs=StudyCosts(samples=samples), rounds=samples, per_agent=np.ones(1), correct=correct,
        mistaken=~correct, truths=1, unfinished=0, largest_size=size,
    )  # fmt: skip


def test_a_direction_is_that_of_the_table_and_only_where_so_many_studies_can_tell():
    assert direction(costs(0.8), costs(0.9)) == "lower"
    assert direction(costs(0.95), costs(0.85)) == "higher"
    assert direction(costs(0.89), costs(0.9)) == "about the same"


def test_the_same_number_twice_is_no_range():
    assert (span(14, 14), span(14, 30)) == ("14", "14 to 30")


TO_DECIDE = [
    "Question", "The design in ten lines", "What to expect", "Size of the study", "Risks", "Who decides what",
    "Appendix",
]  # fmt: skip


def assert_the_first_pages_define_their_words(text):
    """Ten lines of design, one table and one picture; no word of the appendix that they have not explained."""
    first, appendix = text.split("\n## Appendix\n")
    assert re.findall(r"^(\d+)\. ", first, re.MULTILINE) == [str(place) for place in range(1, 11)]
    assert re.findall(r"^\*\*Table (\d+)", first, re.MULTILINE) == ["1"]
    assert re.findall(r"^(\d+)\. .+$", appendix, re.MULTILINE) == [str(place) for place in range(1, 16)], "contents"
    for word in ("power", "delta", "certificate", "tilted", "estimand", "ruled out", "set aside", "Monte Carlo", "±"):
        assert word not in first.replace("is ruled out with", ""), word
    for word in ("phase", "look", "right", "lift" if " lift of " in first else "gap"):
        assert f"*{word}*" in first.replace("*Gap*", "*gap*"), word
    for word in ("None", "nan", "undefined", "{{", "{%", "\x00"):
        assert word not in first


def numbers_of(text):
    return re.findall(r"\d[\d,.]*", re.sub(r"<[^>]+>", " ", text))


@pytest.mark.simulations
def test_page_and_markdown_have_the_same_numbers_and_the_words_of_the_audience():
    study = load_study("examples/four-hospitals.toml")
    made = make_dossier(planner(40), study, [0.1])
    page, text = (
        dossier_html(made, "parley plan x.toml --report y"),
        dossier_markdown(made, "parley plan x.toml --report y"),
    )
    assert "K = 3 treatments, M = 4 sites" in text
    assert "The design has no stopping rule for harm" in text
    said = re.sub(r"^    .*$|`[^`]+`|parley \S+|--\S+|Evidence racing, [^)]+", "", text, flags=re.MULTILINE)
    assert not re.search(r"\b(agents?|arms?|draws?|rewards?)\b", said)
    assert study.reason in text
    assert set(numbers_of(text)) <= set(numbers_of(page))
    assert re.findall("^## (.+)$", text, re.MULTILINE) == re.findall("<h2[^>]*>(.+)</h2>", page) == TO_DECIDE
    assert text.count("\n### ") == page.count("<h3") == 15
    assert_the_first_pages_define_their_words(text)
    assert not {"\x00", "\x01"} & {*page, *text}
    for item in ("1a", "3b", "3c", "7b", "8b", "11c", "12c", "14c", "15b", "17c", "24a", "24b", "25"):
        assert re.search(rf"^\| {item} \|", text, re.MULTILINE), f"item {item} of the checklist"
    tables = [int(number) for number in re.findall(r"^\*\*Table (\d+)\.", text, re.MULTILINE)]
    assert tables == list(range(1, len(tables) + 1))
    assert not re.search(r"Table\W*[^\W\d]", text.replace("Tables", "")), "every table that the text refers to is there"
    assert page.count("<figure") == page.count("<strong>Figure ") == 4
    assert {fixed.samples for one in (made.planned, *made.operating) if (fixed := one.fixed)} == {
        made.planned.fixed.samples
    }, "a textbook's design is sized once"
    assert [peer.name for peer in made.beyond] == [peer.name for peer in made.comparison.rows[0].peers]
    assert all(f"| {peer.label} |" in text for peer in made.beyond)
    with reading("trial"):
        assert all(translated(sentence) in text for sentence in made.comparison.sentences)
    assert made.document()["comparison"]["truths"][0]["scenario"] == "the study's truth"
    rows = [cost for *_, cost in made.what_if] + [cost for _, cost in made.by_weights]
    assert {cost.largest_size for cost in rows} > {2400}, "another size in some rows, which say so"
    assert all(cost.samples.max() <= cost.largest_size for cost in rows)
    said = [(value, direction(cost, made.planned.study)) for what, value, cost in made.what_if if "missing" in what]
    assert "the power is " + ", ".join(f"{words} with {value} missing" for value, words in said) in text
    for one in made.what_if:
        assert f"| {one[0]} | {one[1]} |" in text
        assert f"| {one[2].largest_size:,} |" in text
    assert not re.search(r"(?<![\d.,])([\d.,]+) to \1(?![\d.,])", text), "no range from a number to itself"


@pytest.mark.simulations
def test_guardrails_and_secondary_outcomes_are_told_with_what_they_will_find():
    bleeding = {"name": "bleeding", "kind": "binary", "role": "guardrail", "better": "lower", "delta": 0.05}
    stay = {"name": "stay", "kind": "gaussian", "scale": "unknown", "role": "secondary", "better": "lower"}
    death = bleeding | {"name": "death", "limit": 0.05, "on_alarm": "propose"}
    study = parse_study(
        TWO
        | {"arms": ["placebo", "A"], "control": "placebo", "audience": "trial", "tolerance": 0.1}
        | {"noise": {"kind": "binary"}, "outcomes": [bleeding | {"margin": 0.02}, death, stay]}
    )
    made = make_dossier(planner(20), study, [0.2])
    text = dossier_markdown(made, "parley plan x.toml --report y")
    assert "**Guardrail bleeding.** Allowed in every site's mix: worse than placebo by up to 0.02" in text
    assert "**Guardrail death.** Allowed in every site's mix: at most 0.05" in text
    assert "an administrator decides" in text
    assert "stay (a number, with Gaussian errors; lower is better; secondary)" in text
    assert "The design has no stopping rule for harm" not in text
    assert [(one["guardrail"], one["margins"]) for one in made.document()["guardrails"]] == [
        (name, margins) for name in ("bleeding", "death") for margins in (0.0, 1.0, 2.0, 4.0)
    ]
    assert "| death | 1 | 0.05 |" in text
    assert_the_first_pages_define_their_words(text)
    assert "The mean of bleeding is allowed to be worse than placebo by up to 0.02. A treatment proven to do" in text
    said = re.sub(r"^    .*$|`[^`]+`|parley \S+|--\S+|Evidence racing, [^)]+", "", text, flags=re.MULTILINE)
    assert not re.search(r"\b(agents?|arms?|draws?|rewards?)\b", said)


@pytest.mark.simulations
def test_without_a_tolerance_errors_at_ties_are_measured_by_tilted_runs():
    study = parse_study(TWO | {"delta": 0.1, "max_samples": 400})
    made = make_dossier(planner(200), study, [0.5])
    assert len(made.tilted) == 2, "two agents, one tie of two arms"
    assert all(0 < one.found.probability < 0.1 for one in made.tilted)
    text = dossier_markdown(made, "parley plan x --report y")
    assert "a\\|b" in text
    assert_the_first_pages_define_their_words(text)
    assert "&lt;b&gt;" in dossier_html(made, "parley plan x --report y")
    assert json.dumps(made.document(), allow_nan=False)
    assert dossier_studies(planner(200), study, [0.5]) > 200


@pytest.mark.simulations
def test_the_command_writes_the_same_dossier_again(tmp_path, capsys):
    file = tmp_path / "study.toml"
    file.write_text('arms = 2\nagents = 1\ntolerance = 0.2\n[weights]\nreason = "one site"\n', encoding="utf-8")
    report = tmp_path / "protocol.md"
    written = []
    for _ in range(2):
        run(file, "--report", report, "--gap", "0.4", "--replications", "30", "--json")
        written.append(report.read_text(encoding="utf-8"))
    assert written[0] == written[1]
    found = json.loads(capsys.readouterr().out.split("\n}\n")[0] + "\n}")
    assert found["planned"]["power"] > 0.5
    assert found["ties"]["ruled_out_at_most"] >= found["ties"]["ruled_out"]
    assert f"parley plan {file} --report {report} --policy evidence --replications 30 --seed 0 --gap 0.4" in written[0]


def test_words_that_are_not_installed_are_told_before_anything_is_simulated(tmp_path):
    script = """
import sys
sys.modules["babel.messages.mofile"] = None
from parley.cli.main import run
from parley.edges.dossier import command
command.make_dossier = None
sys.argv = ["parley", "plan", "examples/four-hospitals.toml", "--report", sys.argv[1]]
run()
"""
    made = tmp_path / "dossier.html"
    found = subprocess.run([sys.executable, "-c", script, made], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "the words of trial: found no package babel" in found.stderr
    assert not made.exists()
