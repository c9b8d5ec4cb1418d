"""Mutants that undo fixes for fairness: one busy token must not keep others waiting."""

from contextlib import nullcontext
from threading import RLock

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change

MENDS = Mends()
HERE = "no_request_stops_the_server.py::"
TURNS = "everybody_in_turn.py::"


@MENDS.undone(
    "lets one token have any number of turns",
    point=3,
    test=f"{HERE}test_one_token_follows_so_many_streams_and_no_more",
    words=("assert 40 == 32",),
)
def give_any_number_of_turns():
    from parley.coordinator.http.context import Slots

    change(Slots, "enter", lambda self, key: self._taken.update([key]))


@MENDS.undone(
    "computes for one token as much as it asks for",
    point=3,
    test=f"{HERE}test_heavy_work_of_one_token_is_bounded_and_leaves_a_place_for_others",
    words=("TimeoutError",),
)
def compute_without_turns():
    from parley.coordinator.http.context import Pool

    real = Pool.__init__
    change(Pool, "__init__", lambda self, **how: real(self, **(how | {"of_one": 10**9})))


@MENDS.undone(
    "asks as much for a large request as for a small one",
    point=3,
    test=f"{HERE}test_large_requests_take_more_of_the_allowed_rate",
    words=("assert 0.0 == 1",),
)
def ask_the_same_for_every_request():
    from parley.coordinator.http.context import Throttle

    change(Throttle, "wait", lambda self, key, _=1.0, real=Throttle.wait: real(self, key))


@MENDS.undone(
    "reads for one token as much as it asks for",
    point=3,
    test=f"{TURNS}test_one_token_reads_one_thing_at_a_time_and_agents_wait_for_none[sqlite]",
    words=("Unreachable", "one of the first token"),
)
def read_without_turns():
    from parley.coordinator.http.context import Context

    change(Context, "read_for", lambda self, _, work: self.read(work))


@MENDS.undone(
    "takes two large studies of one token at once",
    point=3,
    test=f"{TURNS}test_one_large_study_of_a_token_is_read_at_a_time",
    words=("1 studies to send", "DID NOT RAISE"),
)
def take_two_studies_at_once():
    from parley.coordinator.http import app

    app.UPLOADS = 2


@MENDS.undone(
    "keeps what a page was made of",
    point=3,
    test=f"{TURNS}test_what_a_page_was_made_of_is_let_go_at_once",
    words=("is None",),
)
def keep_what_pages_were_made_of():
    from parley.dashboard import render

    change(render._Forgetful, "forget", lambda _: None)


@MENDS.undone(
    "takes a form as large as a study may be",
    point=3,
    test=f"{TURNS}test_a_file_in_a_form_has_a_limit_of_its_own",
    words=("413",),
)
def take_large_forms():
    from parley.dashboard import session

    session.FILE_LIMIT = 33_554_432


@MENDS.undone(
    "keeps what it refused",
    point=3,
    test=f"{TURNS}test_what_was_refused_is_let_go_at_once",
    words=("assert not 1",),
)
def keep_what_was_refused():
    from parley.coordinator.http import guard

    change(guard, "settled", guard.refusal_of)


@MENDS.undone(
    "changes for one token as much as it asks for",
    point=3,
    test=f"{TURNS}test_one_token_has_one_change_at_a_time[sqlite]",
    words=("== [1]",),
)
def change_without_turns():
    from parley.coordinator.http.context import Pool

    real = Pool.turn
    change(Pool, "turn", lambda self, key: nullcontext() if self._slots._words == "changes" else real(self, key))


@MENDS.undone(
    "knows a token by a look from before",
    point=3,
    test="token_cache.py::test_requests_that_come_together_look_together_but_never_by_a_look_from_before[postgres]",
    words=("== {",),
)
def know_tokens_by_a_look_from_before():
    from parley.coordinator.access.tokens import TokenCache

    real = TokenCache._look_up

    async def hasty(self, kid):
        look = self._now.get(kid)
        return await (real(self, kid) if look is None else look)

    change(TokenCache, "_look_up", hasty)


@MENDS.undone(
    "writes one text at a time, as Python 3.11's cached_property does",
    point=3,
    test=f"{TURNS}test_no_report_waits_for_the_text_of_a_large_certificate[sqlite]",
    words=("a report waits for another's text",),
)
def write_one_text_at_a_time():
    from parley.system.once import once

    def locked(self, of, kind, *, real=once.__get__, lock=RLock()):  # noqa: B008 - one for all
        with lock if of is not None else nullcontext():
            return of.__dict__[self._name] if of is not None and self._name in of.__dict__ else real(self, of, kind)

    change(once, "__get__", locked)
