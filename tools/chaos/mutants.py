"""Mutants that break one promise of the coordinator each, with the test of that promise, which must then fail.

The environment variable PARLEY_TEST_MUTANT chooses a mutant. The entry points of the tests read it and change the
imported modules: the conftest of all tests, `launcher.py`, and this file as a program, which is `parley` with the
mutant. Nothing in src knows about mutants. `nest.py` runs the tests. The mutants below break promises; those in
`undone` each undo a fix that followed from a hostile trial, and `docs/appendix/threat-model.md` names them beside the
claims.
"""

import importlib
import os
from pathlib import Path

from tools.chaos import mutations
from tools.chaos.mutant import Mutant
from tools.chaos.undone import audit, blinding, requests, site, storage, turns

VARIABLE = "PARLEY_TEST_MUTANT"
WHOLE = ("parley.service.server", "parley.cli.verify", "parley.agent.worker")
ROOT = Path(__file__).parents[2]

PROMISED = (
    Mutant(
        name="acknowledges before the commit, on SQLite",
        breaks="promise 2",
        test="promise_02_crashes.py::test_killed_right_before_the_commit[sqlite]",
        words=("reports lost",),
        apply=mutations.acknowledge_before_the_commit,
    ),
    Mutant(
        name="acknowledges before the commit, on PostgreSQL",
        breaks="promise 2",
        test="promise_02_crashes.py::test_killed_right_before_the_commit[postgres]",
        words=("reports lost",),
        apply=mutations.acknowledge_before_the_commit,
        long=True,
    ),
    Mutant(
        name="takes no lock",
        breaks="promise 5",
        test="promise_05_one_advance.py::test_two_servers_on_one_database",
        words=("an agent was not answered", "stuck"),
        apply=mutations.take_no_lock,
        long=True,
    ),
    Mutant(
        name="closes a phase without compare-and-set",
        breaks="promise 5",
        test="promise_05_one_advance.py::test_a_step_outside_the_lock_is_stored_only_if_nothing_changed[sqlite]",
        words=("decision",),
        apply=mutations.store_steps_whatever_happened,
    ),
    Mutant(
        name="looks for no earlier report",
        breaks="promise 1",
        test="promise_01_exactly_once.py::test_the_same_report_again_gives_the_first_receipt_at_any_time[sqlite]",
        words=("Another report was already accepted",),
        apply=mutations.look_for_no_earlier_report,
    ),
    Mutant(
        name="takes a report that comes again for another one",
        breaks="promise 1",
        test="promise_01_exactly_once.py::test_the_same_report_again_gives_the_first_receipt_at_any_time[sqlite]",
        words=("AssertionError",),
        apply=mutations.take_reports_twice,
        long=True,
    ),
    Mutant(
        name="takes reports that follow another plan",
        breaks="promise 1",
        test="promise_01_exactly_once.py::test_wrong_plans_phases_and_numbers_are_refused_and_change_nothing[sqlite]",
        words=("DID NOT RAISE",),
        apply=mutations.take_reports_of_any_plan,
    ),
    Mutant(
        name="writes other rows than its log tells",
        breaks="promise 6",
        test="judge.py::test_rows_stored_trial_and_log_tell_the_judge_the_same[sqlite]",
        words=("no state or no plan",),
        apply=mutations.write_other_rows_than_the_log_tells,
    ),
    Mutant(
        name="checks no rewards",
        breaks="promise 1",
        test="promise_01_exactly_once.py::test_wrong_plans_phases_and_numbers_are_refused_and_change_nothing[sqlite]",
        words=("DID NOT RAISE",),
        apply=mutations.check_no_rewards,
        long=True,
    ),
    Mutant(
        name="leaves the hashes of the log unchecked",
        breaks="promise 7",
        test="promise_07_tampering.py::test_any_record_changed_deleted_or_moved_is_found",
        words=("of record 1",),
        apply=mutations.leave_hashes_unchecked,
    ),
    Mutant(
        name="verifies without the receipts",
        breaks="promise 7",
        test="promise_07_tampering.py::test_a_cut_log_is_found_by_the_receipts_that_agents_hold",
        words=("cut after",),
        apply=mutations.leave_receipts_unchecked,
        long=True,
    ),
    Mutant(
        name="takes a receipt for any report",
        breaks="promise 7",
        test="promise_07_tampering.py::test_a_log_that_holds_another_report_than_the_agent_sent_is_found",
        words=("a receipt for another report was taken as proof",),
        apply=mutations.take_a_receipt_for_any_report,
    ),
    Mutant(
        name="believes every receipt",
        breaks="promise 7",
        test="promise_07_tampering.py::test_an_old_backup_is_noticed_by_the_first_agent_and_pauses_the_study",
        words=("DID NOT RAISE",),
        apply=mutations.believe_every_receipt,
    ),
    Mutant(
        name="has no triggers on the log",
        breaks="promise 7",
        test="storage.py::test_the_log_is_append_only[sqlite-changed]",
        words=("DID NOT RAISE",),
        apply=mutations.leave_out_the_triggers,
    ),
    Mutant(
        name="skips the study of a token",
        breaks="promise 9",
        test="promise_09_access.py::test_the_whole_matrix[over HTTP]",
        words=("'other'",),
        apply=mutations.skip_the_study_of_a_token,
    ),
    Mutant(
        name="skips the agent of a token",
        breaks="promise 9",
        test="promise_09_access.py::test_the_whole_matrix[over HTTP]",
        words=("'agent 2'",),
        apply=mutations.skip_the_agent_of_a_token,
        long=True,
    ),
    Mutant(
        name="shows on a page what its reader may not read",
        breaks="promise 9",
        test="promise_09_access.py::test_the_whole_matrix[from a page]",
        words=("by viewer",),
        apply=mutations.guard_no_page,
    ),
    Mutant(
        name="takes revoked tokens",
        breaks="promise 9",
        test="promise_09_access.py::test_a_revoked_token_opens_nothing_at_once_and_two_may_live_for_rotation[sqlite]",
        words=("DID NOT RAISE",),
        apply=mutations.take_revoked_tokens,
    ),
    Mutant(
        name="remembers a token that was revoked",
        breaks="promise 9",
        test="promise_09_access.py::test_a_revoked_token_opens_nothing_at_once_and_two_may_live_for_rotation[sqlite]",
        words=("DID NOT RAISE",),
        apply=mutations.remember_revoked_tokens,
        long=True,
    ),
    Mutant(
        name="changes what a revoked token had begun to send",
        breaks="promise 9",
        test="patience.py::test_a_token_revoked_while_its_request_is_being_sent_opens_nothing[sqlite]",
        words=("[False, False, False] == [True, True, True]",),
        apply=mutations.look_at_a_token_once,
        long=True,
    ),
    Mutant(
        name="fails at reports that cannot be true",
        breaks="promise 10",
        test="promise_10_bad_input.py::test_what_a_refusal_says[change2-squares]",
        words=("urn:parley:problem:internal",),
        apply=mutations.fail_at_impossible_reports,
    ),
    Mutant(
        name="keeps secrets in clear",
        breaks="promise 11",
        test="promise_11_secrets.py::test_no_secret_in_database_logs_backup_or_export[sqlite]",
        words=("a secret in the",),
        apply=mutations.keep_secrets_in_clear,
        long=True,
    ),
)
MUTANTS = (
    *PROMISED,
    *(mutant for part in (audit, blinding, requests, turns, storage, site) for mutant in part.MENDS.mutants),
)


def chosen():
    """The mutant that the variable chooses for this process; None if it is not set."""
    name = os.environ.get(VARIABLE)
    return next(mutant for mutant in MUTANTS if mutant.name == name) if name else None


def apply_chosen():
    """Apply the chosen mutant, if any, after importing all modules that it may change."""
    mutant = chosen()
    if mutant is not None:
        for whole in WHOLE:
            importlib.import_module(whole)
        mutant.apply()


if __name__ == "__main__":
    from parley.cli.main import main

    apply_chosen()
    main()
