"""Figures whose legends stay in the picture and whose axes are read without a calculator."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from parley.experiments.report_kit.charts import delta_axis, legend_below, sample_axis
from parley.experiments.report_kit.pages import picture


@pytest.mark.parametrize("words", [1, 6])
def test_a_legend_of_any_length_stays_in_the_picture(words):
    figure = Figure(figsize=(6, 4), layout="constrained")
    panel = figure.subplots()
    for place in range(9):
        panel.plot([0, 1], [place, 2], label=" ".join([f"policy {place}"] * words))
    legend_below(figure, panel)
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent(FigureCanvasAgg(figure).get_renderer())
    assert len(figure.legends) == 1
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= figure.bbox.width


def test_ticks_are_plain_numbers():
    figure = Figure()
    panel = figure.subplots()
    panel.plot([0.1, 0.05, 1e-5], [1_000, 20_000, 300_000])
    panel.set_yscale("log")
    sample_axis(panel)
    delta_axis(panel, [0.1, 0.05, 0.01, 1e-5])
    figure.draw_without_rendering()
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0.1", "0.01", "0.00001"]
    shown = [label.get_text() for label in panel.get_yticklabels()]
    assert "10,000" in shown
    assert not any("^" in text or "$" in text for text in shown)
    assert panel.get_xlim()[0] > panel.get_xlim()[1]


def test_the_words_of_a_picture_stay_words_in_the_page():
    def draw(theme):
        figure = Figure()
        figure.subplots().set_title(f"samples, {theme}")
        return figure

    assert ">samples, dark</text>" in picture("a label", draw)
