"""Mutants that undo fixes against a spoiled log or an incomplete verification."""

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change, rewrite

MENDS = Mends()
VERIFY = "tests/cli/test_verify.py::"


@MENDS.undone(
    "reads no event back before the commit",
    point=1,
    test="tellable.py::test_an_event_with_extreme_values_is_refused_or_told_again_to_the_last_bit[sqlite]",
    words=("was written and cannot be read",),
)
def read_no_event_back():
    from parley.protocol import events

    change(events, "require_readable", lambda _: None)


@MENDS.undone(
    "shows sums to an agent's token without a record",
    point=7,
    test="signed.py::test_sums_read_with_an_agents_token_leave_a_record_before_the_answer[sqlite]",
    words=("DID NOT RAISE",),
)
def show_sums_without_a_record():
    from parley.coordinator.http.operations import OPERATIONS

    for operation in OPERATIONS:
        object.__setattr__(operation, "sums", False)


@MENDS.undone(
    "reads nothing back of what is around an event",
    point=1,
    test="tellable.py::test_what_is_around_an_event_is_read_back_too[sqlite-a\\x00b]",
    words=("DID NOT RAISE",),
)
def read_nothing_back_around_an_event():
    from parley.coordinator.record import writer

    change(writer, "_require_readable", lambda *_: None)


@MENDS.undone(
    "takes a receipt of any number into the log",
    point=1,
    test="tellable.py::test_a_receipt_with_a_number_that_no_log_can_tell_spoils_nothing[sqlite]",
    words=("another hash, or is missing",),
)
def take_receipts_of_any_number():
    """Undo both checks, since either one protects the log: reading back refuses what the route lets through."""
    from parley.coordinator.http.routes import agents

    read_no_event_back()
    rewrite(agents, "known_receipt", "int(form[1]) > LARGEST_INTEGER", "False")


@MENDS.undone(
    "creates studies whose plans no log can tell",
    point=1,
    test="tellable.py::test_a_study_whose_plans_no_log_can_tell_is_refused_when_it_is_created[sqlite-200000000.0]",
    words=("DID NOT RAISE",),
)
def create_studies_of_any_plan():
    from parley.protocol import trial

    read_no_event_back()
    change(trial, "_require_countable", lambda *_: None)


@MENDS.undone(
    "asks of squares only what it asked before",
    point=5,
    test="tests/rewards/test_cells.py::test_what_is_possible[10-1.0-10.0-0.0-1.0-squares]",
    words=("assert None == 'squares'",),
)
def ask_little_of_squares():
    from parley.rewards import plausibility as cells

    change(cells, "flaw", lambda *_: None)


@MENDS.undone(
    "takes squares that no rewards have",
    point=5,
    test="tellable.py::test_squares_that_no_rewards_have_are_refused_and_leave_nothing[sqlite-at most one of five]",
    words=("DID NOT RAISE",),
)
def take_any_squares():
    from parley.protocol import report_checks

    change(report_checks, "check_report", lambda *_: None)


@MENDS.undone(
    "takes rewards that a study cannot add up",
    point=5,
    test="tellable.py::test_no_report_keeps_a_study_from_its_end[sqlite-uniform-noise0]",
    words=("DID NOT RAISE",),
)
def take_rewards_of_any_size():
    from parley.rewards import plausibility as cells

    cells.LARGEST_REWARD = 1e154


@MENDS.undone(
    "names amendments only where a receipt was given",
    point=7,
    test=f"{VERIFY}test_a_site_learns_that_another_report_was_taken_than_its_one_that_was_held",
    words=("Amended: the report of",),
)
def name_amendments_of_receipts_alone():
    from parley.protocol import verify

    def only(self, receipts):
        held = {(receipt.phase, receipt.agent) for receipt in receipts}
        return (found for found in self.amendments if (found.phase, found.agent) in held)

    change(verify._Seen, "amended_after", only)


@MENDS.undone(
    "names no amendments",
    point=7,
    test=f"{VERIFY}test_a_site_learns_that_its_report_was_amended",
    words=("Amended: the report of",),
)
def name_no_amendments():
    from parley.protocol import verify

    change(verify._Seen, "amended_after", lambda *_: ())


@MENDS.undone(
    "takes the log of another study",
    point=7,
    test=f"{VERIFY}test_the_log_of_another_study_is_not_taken_for_the_one_asked_for",
    words=("DID NOT RAISE",),
)
def take_the_log_of_another_study():
    from parley.cli import verify

    rewrite(verify, "_verify", "result.sound and result.study != study", "False")


@MENDS.undone(
    "hashes records by another recipe than the documented one",
    point=8,
    test=f"{VERIFY}test_a_chain_is_recomputed_without_our_code",
    words=("was changed",),
)
def hash_by_another_recipe():
    from parley.protocol import events

    change(events, "sha256_of", lambda texts, real=events.sha256_of: real([*texts, "\n"]))
