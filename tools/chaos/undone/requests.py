"""Mutants that undo fixes against requests that stop the server."""

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change, rewrite

MENDS = Mends()
HERE = "no_request_stops_the_server.py::"
CONNECTIONS = "connections.py::"
TURNS = "everybody_in_turn.py::"
LIMITS = f"{CONNECTIONS}test_lines_and_headers_have_limits"
UNREAD = f"{CONNECTIONS}test_an_answer_that_nobody_reads_is_not_kept_for_ever"
LATE = 12.0  # seconds by which a clock is late: longer than a client may take to send its headers


def allow(**limits):
    """Ignore the server's own limits on connections and use these instead."""
    from parley.web.connections import ConnectionLimits

    real = ConnectionLimits.__init__
    assert not set(limits) - set(ConnectionLimits.__dataclass_fields__), "the mutant is out of date"
    change(ConnectionLimits, "__init__", lambda self, **told: real(self, **(told | limits)))


@MENDS.undone("takes a head of any length", point=3, test=f"{LIMITS}[a long header]", words=("HTTP/1.1 200",))
def take_heads_of_any_length():
    allow(head=10**12)


@MENDS.undone("takes any number of headers", point=3, test=f"{LIMITS}[two hundred headers]", words=("HTTP/1.1 200",))
def take_any_number_of_headers():
    allow(headers=10**12)


@MENDS.undone(
    "takes a body that does not state its length",
    point=3,
    test=f"{CONNECTIONS}test_a_body_that_does_not_state_its_length_gets_411_and_the_connection_ends[/v1/tokens-POST]",
    words=("HTTP/1.1 411",),
)
def take_chunks():
    from parley.web.connections import LimitedParser

    change(LimitedParser, "_require_length", lambda _: None)


@MENDS.undone(
    "parses any number of short headers",
    point=3,
    test=f"{LIMITS}[two hundred headers]",
    words=("HTTP/1.1 200",),
)
def parse_any_number_of_headers():
    from parley.web.connections import LimitedParser

    change(LimitedParser, "_measure_head", lambda _: None)


@MENDS.undone(
    "waits long for a request that does not come",
    point=3,
    test=f"{CONNECTIONS}test_a_request_that_does_not_come_is_not_waited_for[half a line]",
    words=("head_seconds",),
)
def wait_long_for_a_head():
    from parley.web.connections import LimitedConnection

    def late(self, part, seconds, real=LimitedConnection._watch):
        real(self, part, seconds + LATE)

    change(LimitedConnection, "_watch", late)


@MENDS.undone(
    "takes any number of connections",
    point=3,
    test=f"{CONNECTIONS}test_those_who_hold_connections_open_lock_nobody_out",
    words=("are held open",),
)
def take_any_number_of_connections():
    allow(connections=10**12)


@MENDS.undone(
    "waits for ever for whoever does not read",
    point=3,
    test=f"{UNREAD}[in time]",
    words=("are not cut off",),
)
def wait_for_whoever_does_not_read():
    allow(read_seconds=3600.0)


@MENDS.undone(
    "keeps any number of answers that nobody reads", point=3, test=f"{UNREAD}[in memory]", words=("are not cut off",)
)
def keep_unread_answers():
    allow(unread=10**15)


@MENDS.undone(
    "reads a body before it looks at the role",
    point=3,
    test=f"{CONNECTIONS}test_nothing_is_read_of_a_body_that_its_sender_may_not_send",
    words=("before a byte of it is read",),
)
def look_at_the_role_after_reading():
    from parley.coordinator.http import guard

    allowed, read = guard.authorize, guard.Operation._body

    async def late(self, asked, context, principal, limit):
        body = await read(self, asked, context, principal, limit)
        allowed(self.name, self.roles, principal, asked.place, server_wide=self.server_wide)
        return body

    def early(operation, *asked, **how):
        return None if operation == "create_study" else allowed(operation, *asked, **how)

    guard.authorize = early
    change(guard.Operation, "_body", late)


@MENDS.undone(
    "reads a form before it looks at the role",
    point=3,
    test="tests/dashboard/test_session.py::test_only_an_administrators_study_file_may_be_large",
    words=("by its role",),
)
def look_at_the_role_of_a_form_after_reading():
    from parley.dashboard import session

    rewrite(session, "_entered", "if only is not None and (", "if False and (")


@MENDS.undone(
    "reads keys of many dots",
    point=3,
    test=f"{HERE}test_a_hostile_study_file_is_refused_at_once[many dots]",
    words=("Regex pattern did not match", "process_time"),
)
def read_keys_of_many_dots():
    from parley import study

    study.MOST_DOTS = 10**9


@MENDS.undone(
    "makes a study of any size from a form",
    point=3,
    test=f"{HERE}test_a_hostile_study_file_is_refused_at_once[many agents]",
    words=("weights would be made",),
)
def make_studies_of_any_size():
    """Build studies of any size; gigabytes of weights are not really allocated, to spare the machine."""
    from parley.dashboard.pages import new_study

    def begun(document):
        raise AssertionError(f"weights would be made for {document['agents']} agents")

    change(new_study, "_require_small", lambda *_: None)
    new_study.parse_study = begun


@MENDS.undone(
    "reads bodies of any shape",
    point=3,
    test=f"{HERE}test_a_body_of_another_shape_than_any_is_not_read[unknown keys]",
    words=("Regex pattern did not match",),
)
def read_bodies_of_any_shape():
    from parley.coordinator.http import guard

    change(guard, "check_shape", lambda *_, **__: None)


@MENDS.undone(
    "reads reports of any length",
    point=3,
    test=f"{HERE}test_a_report_that_is_too_long_for_its_study_is_refused_before_it_is_looked_at[sqlite]",
    words=("Regex pattern did not match",),
)
def read_reports_of_any_length():
    from parley.coordinator.http import guard

    async def unasked(*_):
        pass

    change(guard, "_check_length", unasked)


@MENDS.undone(
    "puts conflicting reports aside unchecked",
    point=3,
    test="tellable.py::test_a_conflicting_report_that_could_never_have_been_taken_is_not_kept[sqlite]",
    words=("and that one counts",),
)
def put_reports_aside_unchecked():
    from parley.coordinator.studies import phases

    assert phases.check_report
    phases.check_report = lambda *_: None


@MENDS.undone(
    "reads on after a refusal",
    point=3,
    test=f"{TURNS}test_what_follows_a_refusal_is_not_read_to_the_end",
    words=("100000000",),
)
def read_on_after_a_refusal():
    allow(spilled=10**12)
