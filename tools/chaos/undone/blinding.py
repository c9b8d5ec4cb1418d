"""Mutants that undo fixes against testing guesses of hidden sums, and against sessions revived by a clock change."""

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change

MENDS = Mends()
ALIKE = "commitments.py::test_two_reports_look_the_same_to_whoever_may_not_see_them[sqlite]"


def write_no_salts():
    """Use the same salt for all records, which hides no more than none."""
    from parley.protocol import events

    change(events, "new_salt", lambda: "0" * 32)


def show_heads():
    from parley.coordinator.http.context import Call
    from parley.coordinator.reading.studies import Visibility

    change(Call, "visibility", property(lambda _: Visibility(whole=True)))


MENDS.undone(
    "writes records without salts",
    point=2,
    test="commitments.py::test_salts_are_random[sqlite]",
    words=("assert 1 ==",),
)(write_no_salts)
MENDS.undone("shows heads and sequences to everybody", point=2, test=ALIKE, words=("AssertionError: viewer",))(
    show_heads
)


@MENDS.undone(
    "shows heads of records without salts",
    point=2,
    test="commitments.py::test_no_guess_at_a_report_is_confirmed_by_a_hash[sqlite]",
    words=("a guess is confirmed",),
)
def show_unsalted_heads():
    """Show heads without salts, as when a viewer found a site's sums in 2,137 guesses."""
    write_no_salts()
    show_heads()


@MENDS.undone("tells everybody exact times", point=2, test=ALIKE, words=("no exact time",))
def tell_exact_times():
    from parley.coordinator import clock

    change(clock, "to_the_minute", lambda at: at)


@MENDS.undone(
    "shows the salt of a report to analysts",
    point=2,
    test="commitments.py::test_with_its_salt_an_agent_computes_the_head_of_its_receipt_again[sqlite]",
    words=("is None",),
)
def show_salts():
    from parley.coordinator.access.tokens import Role
    from parley.coordinator.http.routes import agents

    agents.INSPECTORS = frozenset(Role)


@MENDS.undone(
    "shows single arms to a viewer",
    point=2,
    test="tests/dashboard/test_blinding.py::test_a_viewer_cannot_tell_the_order_of_the_arms",
    words=("/v1/studies/blinded/board",),
)
def show_single_arms():
    from parley.coordinator.reading import progress

    change(progress, "board", lambda *asked, real=progress.board, **how: real(*asked, **(how | {"blinded": False})))


@MENDS.undone(
    "lets sessions come back with the clock",
    point=7,
    test="tests/dashboard/test_session.py::"
    "test_a_session_expires_and_does_not_come_back_when_the_clock_is_set_back[sqlite]",
    words=("assert 200 == 303",),
)
def follow_the_clock_back():
    from parley.coordinator.http.context import MonotonicClock

    change(MonotonicClock, "__call__", lambda self: self._clock())


@MENDS.undone(
    "never forgets a session",
    point=7,
    test="promise_11_secrets.py::test_sessions_that_are_over_are_forgotten_so_that_no_clock_brings_them_back[sqlite]",
    words=("any_session_over",),
)
def forget_no_session():
    from parley.coordinator.access import tokens

    change(tokens, "sweep_sessions", lambda *_, **__: None)
