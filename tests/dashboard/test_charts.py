"""Figures: valid SVG, inside their frame, names as text, nothing that needs a style or a script."""

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parley.dashboard.charts import LOUD, Arm, bullet, evidence_chart, meter, timeline_chart
from parley.experiments.report_kit.svg import spread, ticks
from parley.text.status import ArmStatus

numbers = st.none() | st.floats(-1e6, 1e6)


@st.composite
def agents(draw):
    phases = draw(st.integers(1, 15))
    several = st.lists(numbers, min_size=phases, max_size=phases)
    arm = st.builds(
        Arm,
        name=st.text(alphabet="aé<&\"'日★ ", min_size=1, max_size=40),
        means=several,
        lows=several,
        highs=several,
        scores=several,
        dropped_in=st.integers(0, phases),
        status=st.sampled_from(ArmStatus),
    )
    return draw(st.lists(arm, min_size=2, max_size=12))


def parsed(figure):
    return ElementTree.fromstring(str(figure))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(agents())
def test_whatever_the_numbers_a_figure_is_valid_and_stays_in_its_frame(arms):
    for figure in (timeline_chart(arms, "label"), evidence_chart(arms, 3.4, "label")):
        root = parsed(figure)
        width, height = (float(value) for value in root.get("viewBox").split()[2:])
        for found in root.iter():
            assert "style" not in found.attrib
            for name, most in (
                ("cx", width),
                ("cy", height),
                ("x1", width),
                ("y1", height),
                ("x2", width),
                ("y2", height),
            ):
                if name in found.attrib:
                    assert -1 <= float(found.get(name)) <= most + 1


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"onload="x', "a&b", "]]>"])
def test_names_come_out_as_text(name):
    arm = Arm(name=name, means=[0.1], lows=[0.0], highs=[0.2], scores=[1.0])
    for figure in (timeline_chart([arm, arm], name), evidence_chart([arm, arm], 3.4, name), bullet(1, 2, 3, 4, name)):
        root = parsed(figure)
        assert root.get("aria-label") == name
        assert not [found for found in root.iter() if "script" in found.tag.lower()]


def test_of_a_closed_arm_nothing_is_proven():
    closed = Arm(name="b", means=[0.1], lows=[0.0], highs=[0.2], scores=[3.4], status=ArmStatus.CLOSED)
    root = parsed(evidence_chart([closed, replace(closed, name="a", status=ArmStatus.OPEN)], 3.4, "x"))
    widths = [float(found.get("width")) for found in root.iter() if found.tag == "rect"]
    assert widths[0] == 0 < widths[1]
    assert "closed" in "".join(root.itertext())


def test_arms_differ_by_shape_as_well_as_by_colour():
    arms = [
        Arm(name=f"arm {k}", means=[k, k], lows=[k - 1, k - 1], highs=[k + 1, k + 1], scores=[0, 0])
        for k in range(LOUD)
    ]
    root = parsed(timeline_chart(arms, "x"))
    shapes = {
        found.attrib.get("points", "").split(",")[0]
        for found in root.iter()
        if found.get("class", "").startswith("s") and found.tag in ("circle", "polygon")
    }
    assert len(shapes) >= LOUD


def test_of_many_arms_the_best_are_told_apart_and_the_rest_stays_in_the_background():
    arms = [Arm(name=f"arm {k}", means=[k], lows=[k - 1], highs=[k + 1], scores=[0.0]) for k in range(50)]
    text = "".join(parsed(timeline_chart(arms, "x")).itertext())
    assert "arm 49" in text
    assert "arm 3" not in text.replace("arm 4", "")
    assert "42 more" in text


def test_a_meter_shows_its_share():
    assert parsed(meter(0.25))[1].get("width") == "25"
    assert parsed(meter(7))[1].get("width") == "100"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_within_and_few(low, width):
    found = ticks(low, low + width)
    assert all(low - 1e-6 * width <= value <= low + width * (1 + 1e-6) for value in found)
    assert len(found) <= 7


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_labels_keep_their_distance_and_their_order(wanted):
    places = spread(wanted, 10.0, 0.0, 100.0)
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    for before, after in pairwise(order):
        assert places[after] - places[before] >= 10 - 1e-9
