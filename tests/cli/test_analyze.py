"""`parley analyze`: tables of every format, every wrong one named, and a page."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from parley.cli.main import main, run
from parley.errors import InvalidInput

ROOT = Path(__file__).parents[2]
VISITS = ROOT / "examples" / "visits.csv"
ROWS = [("P", "a", 1.0), ("P", "a", 2.0), ("P", "b", 4.0), ("P", "b", 6.0)]
ROWS += [("Q", "a", 1.5), ("Q", "a", 2.5), ("Q", "b", 4.5), ("Q", "b", 7.0)]
HEAD = ("site", "arm", "outcome")


def csv(rows=ROWS, head=HEAD, separator=","):
    return "\n".join(separator.join(map(str, row)) for row in (head, *rows)) + "\n"


def analyze(folder, text, *options, name="table.csv"):
    """The JSON of a table, whose sequential studies are left out unless options say otherwise."""
    (folder / name).write_text(text, encoding="utf-8")
    return told(folder, folder / name, "--replications", "0", *options)


def told(folder, table, *options):
    page = str(folder / "page.html")
    done = CliRunner().invoke(
        main, ["analyze", str(table), "--json", "--output", page, *options], catch_exceptions=False
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("separator", "name"), [(",", "x.csv"), (";", "x.csv"), ("\t", "x.tsv")])
def test_a_table_is_read_whatever_separates_its_cells(tmp_path, separator, name):
    found = analyze(tmp_path, csv(separator=separator), name=name)
    assert found["columns"] == {"arm": "arm", "agent": "site", "outcome": "outcome", "covariate": None}
    assert [agent["leader"] for agent in found["agents"]] == ["b", "b"]
    assert found["agents"][0]["arms"][1]["mean"]["estimate"] == 5.0
    assert found["sequential"] is None


def write_parquet(path, rows):
    import duckdb

    values = ", ".join(f"('{site}', '{arm}', {value})" for site, arm, value in rows)
    duckdb.execute(f"COPY (SELECT * FROM (VALUES {values}) AS t(Site, Arm, Outcome)) TO '{path}' (FORMAT parquet)")


def write_excel(path, rows):
    import openpyxl

    book = openpyxl.Workbook()
    for row in (("Site", "Arm", "Outcome"), *rows):
        book.active.append(row)
    book.save(path)


@pytest.mark.servers  # where the extra `sql` is installed
@pytest.mark.parametrize("write", [write_parquet, write_excel])
def test_parquet_and_excel_say_the_same_as_csv(tmp_path, write):
    path = tmp_path / "table"
    write(path, ROWS)
    found = told(tmp_path, path, "--replications", "0")
    plain = analyze(tmp_path, csv())
    assert {**found, "table": ""} == {**plain, "table": ""}
    write(path, [*ROWS[:-1], ("Q", "b", "NULL" if write is write_parquet else None)])
    with pytest.raises(InvalidInput, match=rf"line {8 if write is write_parquet else 9}, column outcome: found ''"):
        told(tmp_path, path)
    study = tmp_path / "study.toml"
    study.write_text(f'arms = ["a", "b"]\nagents = ["P", "Q"]\n[truth]\ndata = "{path.name}"\n', encoding="utf-8")
    write(path, ROWS)
    done = CliRunner().invoke(main, ["bounds", str(study), "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["smallest_gap"] == pytest.approx(3.5)


@pytest.mark.parametrize(("magic", "words"), [(b"PAR1", "duckdb"), (b"PK\x03\x04", "openpyxl")])
def test_a_format_that_is_not_installed_says_which_extra_has_it(tmp_path, magic, words, monkeypatch):
    monkeypatch.setitem(sys.modules, words, None)
    (tmp_path / "table").write_bytes(magic + b"rest")
    with pytest.raises(InvalidInput, match=rf"table, an? \w+ file: found no package {words}; .*'\.\[sql\]'"):
        told(tmp_path, tmp_path / "table")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", (), "column of the arms: found no columns"),
        ("site,arm,outcome\n", (), "found no rows below the header; allowed: a row for every draw"),
        (
            csv(head=("site", "arm", "height")),
            (),
            "column of the outcomes: found site, arm, height; allowed: .*--outcome",
        ),
        (
            csv(head=("here", "arm", "outcome")),
            (),
            "column of the agents: found here, arm, outcome; allowed: .*--agent",
        ),
        (
            csv(),
            ("--outcome", "height"),
            "--outcome: found 'height', 0 times in .*; allowed: one of site, arm, outcome",
        ),
        (csv(), ("--covariate", "age"), "--covariate: found 'age', 0 times"),
        (csv(head=("site", "arm", "arm")), (), "column of the arms: found arm, arm"),
        (csv(head=("site", "treatment", "arm")), (), "column of the arms: found treatment, arm"),
        (csv([*ROWS, ("P", "a", "nan")]), (), "line 10, column outcome: found 'nan'; allowed: a finite number"),
        (csv([*ROWS, ("P", "a", "")]), (), "line 10, column outcome: found ''"),
        (csv([*ROWS, ("P", "a", "1e200")]), (), "line 10, column outcome: found '1e200'; allowed: up to 1e"),
        (csv([*ROWS, ("P", "a", "much")]), (), "line 10, column outcome: found 'much'"),
        (csv([*ROWS, ("P", "a")]), (), "line 10, column outcome: found ''"),
        (csv([*ROWS, ("P", "", 1)]), (), "line 10, column arm: found ''; allowed: a name"),
        (csv([row for row in ROWS if row[1] == "a"]), (), "found one arm, a; allowed: at least 2 arms"),
        (csv(ROWS[:6]), (), "found 0 rows of b at Q; allowed: at least 2 rows"),
        (csv(ROWS[:7]), (), "found 1 row of b at Q"),
        (csv([(*row, 3) for row in ROWS], (*HEAD, "age")), ("--covariate", "age"), "age: found age is constant .* P"),
        (
            csv([(*row, "old") for row in ROWS], (*HEAD, "age")),
            ("--covariate", "age"),
            "line 2, column age: found 'old'",
        ),
        (csv(), ("--alpha", "2"), "alpha: found 2.0"),
        (csv(), ("--alpha", "0.5", "--pooled"), "--alpha and --pooled: found both"),
        (csv(), ("--control", "c"), "control: found 'c'"),
        (csv(), ("--delta", "1"), "delta: found 1.0"),
        (csv(), ("--replications", "-1"), "--replications: found -1"),
        (csv(), ("--weights", "none.csv"), "weights.file: found no file at none.csv"),
    ],
)
def test_a_wrong_table_or_option_is_named(tmp_path, text, options, words):
    with pytest.raises(InvalidInput, match=words):
        analyze(tmp_path, text, *options)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([*ROWS, ("P", "c", 1)], "line 10, column arm: found 'c'; allowed: a, b"),
        ([*ROWS, ("R", "a", 1)], "line 10, column site: found 'R'; allowed: P, Q"),
        ([*ROWS, ("P", "a", 99)], "line 10, column outcome: found 99; allowed: numbers from 0 to 10"),
    ],
)
def test_names_and_ranges_are_those_of_the_study(tmp_path, rows, words):
    study = tmp_path / "study.toml"
    study.write_text(
        'arms = ["a", "b"]\nagents = ["P", "Q"]\nnoise = {kind = "bounded", low = 0, high = 10}\n', "utf-8"
    )
    with pytest.raises(InvalidInput, match=words):
        analyze(tmp_path, csv(rows), "--study", str(study), "--replications", "5")


def test_the_study_states_weights_delta_control_and_policy(tmp_path):
    study = tmp_path / "study.toml"
    weights = 'weights = {kind = "matrix", matrix = [[0.9, 0.4], [0.1, 0.6]]}\n'
    study.write_text(f'arms = ["b", "a"]\nagents = ["Q", "P"]\ndelta = 0.2\ncontrol = "a"\n{weights}', encoding="utf-8")
    found = analyze(tmp_path, csv(), "--study", str(study))
    assert (found["delta"], found["control"], found["weights"]) == (0.2, "a", [[0.9, 0.4], [0.1, 0.6]])
    assert [agent["agent"] for agent in found["agents"]] == ["Q", "P"]
    assert found["agents"][0]["arms"][0]["mean"]["estimate"] == pytest.approx(0.9 * 5.75 + 0.1 * 5.0)
    assert found["agents"][0]["arms"][1]["to_control"]["estimate"] == 0


def test_a_study_with_a_covariate_names_its_column(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('arms = ["a", "b"]\nagents = ["P", "Q"]\n[covariate]\nname = "age"\n', encoding="utf-8")
    table = csv([(*row, age) for row, age in zip(ROWS, (3, 1, 4, 1, 5, 9, 2, 6), strict=True)], (*HEAD, "Age"))
    found = analyze(tmp_path, table, "--study", str(study), "--replications", "5")
    assert found["adjusted_for"] == "age"
    del found["sequential"], found["report"]
    same = analyze(tmp_path, table, "--covariate", "age", "--delta", "0.1")
    assert {key: same[key] for key in found} == found
    with pytest.raises(InvalidInput, match="--covariate: found 'age', 0 times"):
        analyze(tmp_path, csv(), "--study", str(study))


def test_weights_by_options(tmp_path):
    (tmp_path / "w.csv").write_text("0.9,0.4\n0.1,0.6\n", encoding="utf-8")
    uneven = csv([*ROWS, *ROWS[:4]])
    assert analyze(tmp_path, csv())["weights"] == [[1, 0], [0, 1]]
    assert analyze(tmp_path, csv(), "--alpha", "0.5")["weights"] == [[0.75, 0.25], [0.25, 0.75]]
    assert analyze(tmp_path, csv(), "--weights", str(tmp_path / "w.csv"))["weights"] == [[0.9, 0.4], [0.1, 0.6]]
    assert analyze(tmp_path, uneven, "--pooled")["weights"][0] == pytest.approx([2 / 3, 2 / 3])
    one = analyze(tmp_path, csv(), "--agent", "none")
    assert [agent["agent"] for agent in one["agents"]] == ["all"]


def test_the_example_is_what_its_program_makes_and_the_readme_shows_it(tmp_path):
    made = [",".join(row) for row in runpy.run_path(str(ROOT / "examples" / "visits.py"))["rows"]()]
    assert VISITS.read_text(encoding="utf-8").splitlines()[1:] == made
    shown = re.search(r"parley (analyze examples/visits.csv .*)", (ROOT / "README.md").read_text(encoding="utf-8"))[1]
    options = shown.partition("#")[0].split()[2:]
    found = told(tmp_path, VISITS, *options, "--replications", "20")
    assert [agent["chosen"] for agent in found["agents"]] == [["short"], ["short"], ["video"]]
    assert all(agent["proven"] for agent in found["agents"])
    assert found["sequential"]["replications"] == 20
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("figure forest") == 3 * 2 + 1, "to the best and to the control, and what a study needed"
    assert "What a sequential study would have needed" in page
    assert "The covariate" in page
    plain = told(tmp_path, VISITS, "--outcome", "spent", "--replications", "0")
    assert plain["adjusted_for"] is None
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "strongly skewed to the right" in page
    assert "The covariate" not in page


def test_people_get_tables_and_names_are_text(tmp_path):
    table = tmp_path / "<b>.csv"
    table.write_text(csv([(f"<i>{site}", f"[red]{arm}", value) for site, arm, value in ROWS]), encoding="utf-8")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(main, ["analyze", str(table), "--output", str(page), "--replications", "5"])
    assert done.exit_code == 0, done.output
    assert "[red]b" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert "<i>" not in text
    assert "&lt;i&gt;P" in text
    assert "parley analyze" in text


@pytest.mark.simulations
@pytest.mark.parametrize("control", [(), ("--control", "a")])
def test_figures_are_files_too(tmp_path, control):
    folder = tmp_path / "figures"
    found = analyze(tmp_path, csv(), "--figures", str(folder), *control, "--replications", "5")
    names = ["means", "differences-to-the-best", *["differences-to-the-control"] * bool(control), "sequential-studies"]
    wanted = {f"{name}{theme}.{kind}" for name in names for theme in ("", "-dark") for kind in ("png", "svg")}
    assert {path.name for path in folder.iterdir()} == wanted == {Path(file).name for file in found["figures"]}
    drawn = (folder / "differences-to-the-best.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in drawn for word in ("P", "Q", "a", "b"))
    assert "parley analyze" in drawn
    assert analyze(tmp_path, csv())["figures"] == []


def test_words_are_those_of_the_audience(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text('arms = ["a", "b"]\nagents = ["P", "Q"]\naudience = "trial"\n', encoding="utf-8")
    analyze(tmp_path, csv(), "--study", str(study))
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    words = re.sub(r"<[^>]+>|<code>.*?</code>", " ", body)
    assert "treatment" in words
    assert not re.search(r"\b(arms?|agents?|draws?)\b", words), re.findall(r".{30}\b(?:arms?|agents?|draws?)\b", words)


def test_a_wrong_table_exits_with_2_and_no_traceback(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["parley", "analyze", str(tmp_path / "none.csv")])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert "table: found no file at" in told
