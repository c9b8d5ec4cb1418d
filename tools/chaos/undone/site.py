"""Mutants that undo fixes against a coordinator that deceives an agent."""

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change, rewrite

MENDS = Mends()
HERE = "tests/agent/test_not_fooled.py::"


@MENDS.undone(
    "believes whatever says 200",
    point=6,
    test=f"{HERE}test_a_captive_portal_is_waited_for[a page]",
    words=("JSONDecodeError",),
)
def believe_whatever_says_200():
    from parley.agent import client

    change(client, "_understood", lambda read, answer: read(answer))


@MENDS.undone(
    "takes a proxy's refusal for the coordinator's",
    point=6,
    test=f"{HERE}test_a_captive_portal_is_waited_for[a proxy's 403]",
    words=("HTTP 403",),
)
def take_a_proxys_refusal():
    from parley.agent import client

    rewrite(client, "_checked", 'not str(problem.get("type", "")).startswith(PROBLEM)', "False")


@MENDS.undone(
    "draws somebody else's plan",
    point=6,
    test=f"{HERE}test_a_plan_for_somebody_else_is_not_drawn[change0]",
    words=("DID NOT RAISE", "WrongReceipt"),
    long=False,
)
def draw_any_plan():
    from parley.agent import plans

    change(plans, "meant", lambda plan, *_: plan)


@MENDS.undone(
    "takes somebody else's report for its own",
    point=6,
    test=f"{HERE}test_a_report_of_somebody_else_is_not_taken_for_ones_own",
    words=("DID NOT RAISE",),
)
def own_any_report():
    from parley.agent import client

    change(client, "_own", lambda report, *_: report)


@MENDS.undone(
    "keeps receipts for no record",
    point=6,
    test=f"{HERE}test_a_receipt_for_no_record_is_not_kept[change0]",
    words=("DID NOT RAISE",),
    long=False,
)
def keep_receipts_for_no_record():
    from parley.agent import plans

    nothing = "receipt.sequence < FIRST_REPORT or HEAD.fullmatch(receipt.head) is None"
    rewrite(plans, "proven", nothing, "False")


@MENDS.undone(
    "reads whatever lies in its outbox",
    point=6,
    test=f"{HERE}test_stray_files_in_the_outbox_are_let_be",
    words=("invalid literal for int",),
)
def read_whatever_lies_there():
    from parley.agent import outbox

    rewrite(outbox, "kept_files", " if KEPT.fullmatch(path.name) and path.is_file()", "")


@MENDS.undone(
    "does not say that somebody else reported",
    point=6,
    test=f"{HERE}test_an_agent_whose_place_was_reported_by_somebody_else_says_so",
    words=("nobody was warned",),
)
def keep_quiet_about_strangers():
    from parley.agent.worker import Worker

    change(Worker, "_note_stranger", lambda *_: None)


@MENDS.undone(
    "reports people for another plan than theirs",
    point=6,
    test="tests/agent/test_site_not_fooled.py::test_people_of_one_plan_are_not_reported_for_another[change0]",
    words=("DID NOT RAISE",),
)
def report_people_for_any_plan():
    from parley.agent.people import People

    change(People, "is_new", lambda self, plan: plan.phase > max(self.phases, default=0))


@MENDS.undone(
    "lets whoever guesses a site's code go on",
    point=6,
    test="tests/agent/test_site_not_fooled.py::test_whoever_guesses_the_code_waits_and_not_even_the_right_one_is_looked_at",
    words=("assert [401",),
    long=False,
)
def let_guesses_go_on():
    from parley.web.guard import Buckets

    change(Buckets, "wait", lambda *_: 0.0)
