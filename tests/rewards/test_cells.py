"""A report's totals are those of some rewards, or refused: tried against whole arithmetic."""

import math
from contextlib import nullcontext
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from parley.errors import ImpossibleReport
from parley.protocol import Report, check_report
from parley.rewards import Binary, Bounded
from parley.rewards.plausibility import flaw

ends = st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).map(sorted).filter(lambda e: e[1] - e[0] > 1e-3)


@pytest.mark.parametrize(
    ("count", "total", "square", "low", "high", "wrong"),
    [
        (10, 1.0, 10.0, 0.0, 1.0, "squares"),  # of the trial: at most 1
        (1, 2.0, 1e6, None, None, "squares"),  # of the trial: one draw has one square
        (1, 2.0, 4.0, None, None, None),
        (1, 2.0, 3.9, None, None, "squares"),
        (1, 0.5, 0.26, 0.0, 1.0, "squares"),
        (10, 3.0, 3.0, 0.0, 1.0, None),
        (10, 3.0, 3.01, 0.0, 1.0, "squares"),
        (10, 3.5, 3.25, 0.0, 1.0, None),
        (10, 3.5, 3.26, 0.0, 1.0, "squares"),
        (10, 3.0, 0.9, 0.0, 1.0, None),
        (10, 3.0, 0.89, 0.0, 1.0, "squares"),
        (4, 0.0, 4.0, -1.0, 1.0, None),
        (3, 0.0, 2.0, -1.0, 1.0, None),
        (3, 0.0, 3.0, -1.0, 1.0, "squares"),  # three rewards at the ends cannot add up to 0
        (10**9, 1.0, 4.0, 0.0, 1.0, "squares"),
        (10**9, 1.0, 1.0, 0.0, 1.0, None),
        (2, 3e-5, 0.0, None, None, "squares"),
        (2, 2e-160, 0.0, None, None, None),  # the squares are too small for a number
        (5, 6.0, 7.2, 0.0, 1.0, "sums"),
        (0, 0.0, 1.0, None, None, "squares"),
        (5, 1.0, 1.7e308, None, None, "squares"),  # two of these are no number any more
        (5, 5e70, 5e140, None, None, None),
        (5, 5.1e70, 5.3e140, None, None, "squares"),
        (0, 1.0, 0.0, 0.0, 1.0, "sums"),
    ],
)
def test_what_is_possible(count, total, square, low, high, wrong):
    found = flaw(count, total, square, low, high)
    assert (found[0] if found else None) == wrong


@pytest.mark.parametrize(
    ("total", "square", "wrong"),
    [(3.0, 3.0, None), (0.0, 0.0, None), (2.5, 2.5, "sums"), (3.0, 2.5, "squares"), (3.0, 4.0, "squares"),
     (11.0, 11.0, "sums"), (-1.0, 1.0, "sums"), (3.0 + 1e-12, 3.0, "sums")],
)  # fmt: skip
def test_the_model_says_what_its_rewards_can_be(total, square, wrong):
    """Yes or no is stricter than a range."""
    found = Binary().flaw(10, total, square)
    assert (found[0] if found else None) == wrong
    assert Bounded(low=0, high=1).flaw(10, 2.5, 2.25) is None
    report = Report(study="s", phase=1, agent="x", plan="ab", counts=(10,), sums=(total,), squares=(square,))
    with nullcontext() if wrong is None else pytest.raises(ImpossibleReport, match=rf"{wrong}\[0\]"):
        check_report(report, report.counts, Binary())


@given(st.data(), ends)
@settings(max_examples=50, deadline=None)
def test_totals_of_rewards_are_possible_in_whatever_order_they_are_added(data, ends):
    low, high = ends
    reward = st.one_of(st.floats(low, high), st.sampled_from([low, high]))
    values = data.draw(st.lists(reward, min_size=1, max_size=60))
    for order in (values, sorted(values), sorted(values, reverse=True)):
        total, square = sum(order), sum(value * value for value in order)
        assert flaw(len(values), total, square, low, high) is None
        assert flaw(len(values), total, square, None, None) is None
        assert flaw(len(values), math.fsum(order), math.fsum(v * v for v in order), low, high) is None


def most(count, total, low, high):
    """By trying every corner: some at the low end, some at the high end, one where the sum needs it."""
    found = []
    for at_high in range(count):
        last = total - at_high * high - (count - 1 - at_high) * low
        if low <= last <= high:
            found.append(at_high * high**2 + (count - 1 - at_high) * low**2 + last**2)
    return max(found)


@given(st.data(), ends, st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_the_largest_and_the_least_square_are_exact(data, ends, count):
    low, high = map(Fraction, ends)
    share = data.draw(st.fractions(0, 1, max_denominator=1000))
    total = count * (low + share * (high - low))
    upper, lower = most(count, total, low, high), total**2 / count
    assume(upper > 1e-3)
    size = float(count * max(abs(low), abs(high)) ** 2)
    assert flaw(count, float(total), float(upper), *ends) is None
    assert flaw(count, float(total), float(lower), *ends) is None
    assert flaw(count, float(total), float(upper) + 1e-8 * size, *ends)[0] == "squares"
    if lower > 1e-3 * size:
        assert flaw(count, float(total), float(lower) - 1e-8 * size, *ends)[0] == "squares"


@pytest.mark.parametrize("off", [-1e4, -100.0, 100.0, 1e4])
def test_bounds_far_from_zero_leave_no_room_for_more_than_they_hold(off):
    """A hundred rewards from 1,000,000 to 1,000,001 scatter by at most 25: a billionth of their squares is 100,000."""
    total = 100 * 1_000_000.5
    assert flaw(100, total, total**2 / 100 + 12.5, 1e6, 1e6 + 1) is None
    assert flaw(100, total, total**2 / 100 + off, 1e6, 1e6 + 1)[0] == "squares"


@given(st.data(), st.floats(-1e9, 1e9), st.floats(1e-3, 10), st.integers(1, 3000))
@settings(max_examples=60)
def test_rewards_added_up_one_by_one_in_any_range_are_possible(data, low, width, count):
    high = low + width
    some = data.draw(st.lists(st.one_of(st.floats(low, high), st.sampled_from([low, high])), min_size=1, max_size=5))
    values = (some * count)[:count]
    total, square = 0.0, 0.0
    for value in values:
        total, square = total + value, square + value * value
    assert flaw(count, total, square, low, high) is None
