"""Results as frames, their statistics, figures and the report, from a real sweep of every kind of axis."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from matplotlib.figure import Figure
from scipy import stats

from parley.cli.main import main
from parley.errors import InvalidInput, UnknownName
from parley.experiments.report_kit.charts import THEMES, elimination_timeline, theme_named
from parley.experiments.sweeps.engines import Engine
from parley.experiments.sweeps.figures import bound_curve, curves, drawn_axes, saving_curves, sweep_figures
from parley.experiments.sweeps.report import html_report
from parley.experiments.sweeps.results import compare, interval, load_results, summary
from parley.experiments.sweeps.runner import run_sweep
from parley.experiments.sweeps.storage import Folder
from parley.experiments.sweeps.sweep import parse_sweep

pytestmark = pytest.mark.simulations

SWEEP = {
    "name": "alpha <and> friends",
    "study": {
        "arms": ["control", "A & B", "C"],
        "agents": 2,
        "weights": {"kind": "personalized", "alpha": 0.5},
        "noise": {"scale": 1.0},
        "truth": {"means": [[0.9, 0.8], [0.3, 0.2], [0.1, 0.4]]},
    },
    "replications": 60,
    "axes": {"alpha": [0.2, 0.6, 1.0], "policy": ["wcpe", "evidence", "uniform"]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("results") / "out"
    run_sweep(parse_sweep(SWEEP), Folder(path=path), Engine(workers=1), command="parley sweep it.toml")
    return path


@pytest.fixture(scope="module")
def results(folder):
    return load_results(folder)


@pytest.mark.engines
def test_pandas_and_polars_hold_the_same_rows(results):
    frame = results.pandas()
    assert len(frame) == 9 * 60
    other = results.polars()
    assert other.columns == list(frame.columns)
    assert other["cost"].to_list() == frame["cost"].tolist()


def test_the_summary_is_what_the_rows_say(results):
    made, frame = summary(results), results.pandas()
    assert len(made) == 9
    row = made[(made["alpha"] == 0.6) & (made["policy"] == "wcpe")].iloc[0]
    costs = frame[(frame["alpha"] == 0.6) & (frame["policy"] == "wcpe")]["cost"]
    assert row["cost"] == pytest.approx(costs.mean())
    low, high = stats.t.interval(0.95, 59, costs.mean(), stats.sem(costs))
    assert (row["cost_low"], row["cost_high"]) == pytest.approx((low, high))
    assert row["error_low"] == 0.0
    assert 0 < row["error_high"] < 0.1
    assert row["ratio"] == pytest.approx(row["cost"] / row["lower_bound"])


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_intervals_cover_the_mean_as_often_as_they_say(method):
    rng = np.random.default_rng(5)
    samples = [rng.normal(3, 1, 40) for _ in range(60)]
    covered = [low <= 3 <= high for low, high in (interval(one, method=method) for one in samples)]
    assert 0.87 <= np.mean(covered) <= 1.0
    assert np.isnan(interval(np.array([1.0]))[0])


def test_intervals_refuse_what_they_cannot_do():
    with pytest.raises(UnknownName, match="bootstrap"):
        interval(np.ones(3), method="magic")
    with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
        interval(np.ones(3), level=95)


def test_policies_are_compared_pair_by_pair(results):
    made, frame = compare(results), results.pandas()
    assert len(made) == 6
    assert set(made["against"]) == {"wcpe"}
    row = made[(made["alpha"] == 0.2) & (made["policy"] == "evidence")].iloc[0]
    at = frame[frame["alpha"] == 0.2].set_index("replication")
    mine, theirs = at[at["policy"] == "evidence"]["cost"], at[at["policy"] == "wcpe"]["cost"]
    assert row["difference"] == pytest.approx((mine - theirs).mean())
    assert row["t_p"] == pytest.approx(stats.ttest_rel(mine, theirs).pvalue)
    assert row["saving"] == pytest.approx(theirs.mean() / mine.mean())
    assert (made["t_p_holm"] >= made["t_p"]).all()
    turned = compare(results, against="evidence")
    assert set(turned["policy"]) == {"wcpe", "uniform"}
    along = compare(results, axis="alpha", against=1.0)
    assert set(along["alpha"]) == {0.2, 0.6}
    with pytest.raises(UnknownName, match="alpha, policy"):
        compare(results, axis="beta")
    with pytest.raises(UnknownName, match="evidence"):
        compare(results, against="best")


def test_curves_hold_means_bounds_and_savings(results):
    made = summary(results)
    assert drawn_axes(results) == ["alpha"]
    drawn = {curve.label: curve for curve in curves(results, made, "alpha", "cost")}
    assert set(drawn) == {"wcpe", "evidence", "uniform"}
    assert drawn["wcpe"].x.tolist() == [0.2, 0.6, 1.0]
    assert (drawn["wcpe"].low < drawn["wcpe"].y).all()
    (bound,) = bound_curve(results, made, "alpha")
    assert (bound.y < drawn["evidence"].y).all()
    (saving,) = saving_curves(results, "alpha")
    assert saving.y[-1] == pytest.approx(1.0)  # at alpha = 1 everyone is alone anyway
    assert saving.y[0] > 1.2


def test_a_seed_axis_is_averaged_over(tmp_path):
    axes = {"seed": [0, 1, 2], "delta": [0.1, 0.01], "policy": ["wcpe"]}
    study = {**SWEEP["study"], "arms": 3, "largest_gap": 2.0, "truth": {"generate": "paper", "min_gap": 0.2}}
    run_sweep(parse_sweep({**SWEEP, "study": study, "axes": axes}), Folder(path=tmp_path / "o"), Engine(workers=1))
    results = load_results(tmp_path / "o")
    made = summary(results)
    (curve,) = curves(results, made, "delta", "cost")
    at = made[made["delta"] == 0.01]["cost"]
    assert curve.y[curve.x == 0.01][0] == pytest.approx(at.mean())
    assert curve.low[0] < curve.y[0] < curve.high[0]
    (narrow,) = curves(results, made, "delta", "cost", level=0.5)
    assert (narrow.high < curve.high).all(), "between instances, too, the interval has the level that is named"


@pytest.mark.parametrize("theme", sorted(THEMES))
def test_every_figure_is_drawn_with_labels_in_every_theme(results, theme, tmp_path):
    made = sweep_figures(results, summary(results))
    assert set(made) == {"cost-against-alpha", "cost-and-rounds-alpha", "collaboration-alpha", "boxes", "allocation"}
    for name, draw in made.items():
        figure = draw(theme=theme)
        assert isinstance(figure, Figure)
        figure.savefig(tmp_path / f"{name}.png")
        if name != "allocation":
            assert all(panel.get_ylabel() for panel in figure.axes)
        assert figure.get_facecolor()[:3] == pytest.approx(
            [int(THEMES[theme].ground[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        )


def test_themes_are_told_apart_by_contrast():
    def lightness(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    for theme in THEMES.values():
        ground = lightness(theme.ground)
        for colour, least in [(theme.ink, 7), (theme.muted, 3), *((colour, 3) for colour in theme.series)]:
            high, low = max(lightness(colour), ground), min(lightness(colour), ground)
            assert (high + 0.05) / (low + 0.05) >= least, (theme.name, colour)
    with pytest.raises(UnknownName, match="dark, light"):
        theme_named("sepia")


def test_a_course_needs_a_phase(results):
    with pytest.raises(InvalidInput, match="at least one phase"):
        elimination_timeline([], results.cells[0][0].prepare()[1].problem)


def test_the_report_is_whole_and_escapes_names(results):
    page = html_report(results, summary(results), command="parley report <x>")
    assert "<title>Parley: alpha &lt;and&gt; friends</title>" in page
    assert "parley report &lt;x&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert not re.search(r"<(link|img)[^>]+(src|href)=", page)
    charts = re.findall(r"<figure>(.*?)</figure>", page, flags=re.DOTALL)
    assert len(charts) == 5
    for chart in charts:
        assert "nan" not in re.sub(r"<title>.*?</title>", "", chart)
        assert re.search(r"<title>[^<]*\d</title>|<title>[^<]*% of all</title>", chart), "numbers on hovering"
    assert any("A &amp; B" in chart for chart in charts)
    summed = summary(results)
    first = summed.sort_values("alpha").iloc[0]
    assert f"{first['cost']:,.5g}</title>" in charts[0]


def test_the_report_command_writes_the_page_and_figures(folder, tmp_path):
    page, figures = tmp_path / "page.html", tmp_path / "figures"
    arguments = ["report", str(folder), "--output", str(page), "--figures", str(figures)]
    result = CliRunner().invoke(main, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert len(document["summary"]) == 9
    assert len(document["figures"]) == 5 * 4
    assert page.stat().st_size < 1_000_000, "it is sent by mail"
    shown = CliRunner().invoke(main, ["report", str(folder), "--output", str(page), "--bootstrap"])
    assert shown.exit_code == 0
    assert "evidence" in shown.stdout


def test_figures_for_a_paper_have_their_fonts_embedded_and_the_width_of_a_column(folder, tmp_path):
    arguments = ["figures", str(folder), "--format", "pdf", "--width", "85", "--json"]
    for out in ("first", "again"):
        done = CliRunner().invoke(main, [*arguments, "--out", str(tmp_path / out)])
        assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert len(document["figures"]) == 5
    for path in sorted((tmp_path / "first").glob("*.pdf")):
        content = path.read_bytes()
        assert b"/FontFile2" in content, "TrueType, embedded"
        assert b"/Type3" not in content
        left, bottom, right, top = map(float, re.search(rb"/MediaBox \[([\d. ]+)\]", content)[1].split())
        assert right - left == pytest.approx(85 / 25.4 * 72, abs=0.1)
        assert top - bottom > 0.4 * (right - left)
        assert content == (tmp_path / "again" / path.name).read_bytes(), "the same numbers, the same file"
    table = pd.read_csv(document["summary"])
    assert table["cost"].tolist() == pytest.approx(summary(load_results(folder))["cost"].tolist())
    # Beside a page for a screen nothing changes, and text stays text.
    done = CliRunner().invoke(main, ["figures", str(folder), "--format", "svg", "--out", str(tmp_path / "svg")])
    assert "5 files in" in " ".join(done.stdout.split())
    drawing = (tmp_path / "svg" / "cost-against-alpha.svg").read_text(encoding="utf-8")
    assert 'width="518.4pt"' in drawing
    assert ">lower bound</text>" in drawing


def test_the_report_names_the_level_of_its_intervals(folder, results, tmp_path):
    page = tmp_path / "page.html"
    options = ["--level", "0.8", "--bootstrap"]
    shown = CliRunner().invoke(main, ["report", str(folder), "--output", str(page), *options])
    assert shown.exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "bands are 80% intervals" in text
    assert "with its 80% interval" in text
    assert "95% interval" not in text
    assert "--level 0.8 --bootstrap" in text, "what made it"
    narrow, wide = (compare(results, level=level)["difference_high"].max() for level in (0.8, 0.95))
    assert f"{narrow:+,.0f}" in text
    assert narrow < wide
    figure = sweep_figures(results, summary(results, level=0.8), level=0.8)["cost-against-alpha"]()
    assert "80% interval" in figure.axes[0].get_ylabel()


def test_an_unfinished_sweep_is_reported_as_such(folder, tmp_path):
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    first, second, *_ = sorted((copy / "cells").iterdir())
    first.unlink()
    second.write_bytes(second.read_bytes()[:-9])
    results = load_results(copy)
    assert (len(results.cells), results.missing, results.damaged) == (7, 2, (second.name,))
    page = html_report(results, summary(results), command="")
    assert "2 cells are missing" in page
    assert second.name in page


def test_rows_that_are_cells_are_summarised_too(tmp_path):
    run_sweep(parse_sweep({**SWEEP, "rows": "cell"}), Folder(path=tmp_path / "o"), Engine(workers=1))
    results = load_results(tmp_path / "o")
    made = summary(results)
    assert len(made) == 9
    assert (made["cost_low"] < made["cost"]).all()
    assert (summary(results, level=0.5)["cost_low"] > made["cost_low"]).all()
    with pytest.raises(InvalidInput, match="a row per cell"):
        compare(results)
    assert "boxes" not in sweep_figures(results, made)
    assert "Every cell" in html_report(results, made, command="")


def test_results_of_an_older_version_can_still_be_read(folder, monkeypatch):
    monkeypatch.setattr("parley.experiments.sweeps.sweep.__version__", "99.0.0")
    monkeypatch.setattr("parley.experiments.sweeps.storage.__version__", "99.0.0")
    assert len(load_results(folder).cells) == 9


@pytest.mark.parametrize("broken", ["nothing", "empty"])
def test_a_folder_without_results(tmp_path, broken):
    if broken == "empty":
        Folder(path=tmp_path).claim(parse_sweep(SWEEP), command="")
    with pytest.raises(InvalidInput, match=r"no sweep\.json|no finished cell"):
        load_results(tmp_path)


def test_frames_come_back_as_pandas_wrote_them(folder):
    frame = pd.read_parquet(folder / "results.parquet")
    assert frame["mistaken"].dtype == bool
    assert frame["policy"].unique().tolist() == ["wcpe", "evidence", "uniform"]
