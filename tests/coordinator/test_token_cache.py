"""Tokens are cached where nobody else can revoke them, and never longer than they hold."""

import asyncio
import threading

import pytest
from tests.coordinator.support import House, study_message
from tests.support import awaited

from parley.coordinator.access import tokens
from parley.coordinator.access.tokens import TokenCache
from parley.coordinator.problems import Refusal
from parley.coordinator.record import StorageUnavailable, open_storage
from parley.errors import NotAllowed


@pytest.fixture
def token(storage):
    return storage.change(
        lambda c: tokens.issue_token(
            c, role=tokens.Role.ADMINISTRATOR, name="a", study=None, agent=None, by="test", at="now"
        )
    )[0]


def revoke(storage, token):
    kid = tokens.read_token(token)[0]
    storage.change(lambda c: tokens.revoke(c, kid, by="test", at="later"))
    return kid


def looks(storage, monkeypatch):
    """How often the database is asked from now on."""
    seen, glance = [], storage.glance
    monkeypatch.setattr(storage, "glance", lambda work: seen.append(work) or glance(work))
    return seen


def test_a_token_shown_again_is_looked_up_only_where_another_process_may_revoke_it(storage, token, monkeypatch):
    keys, seen = TokenCache(storage), looks(storage, monkeypatch)
    for _ in range(3):
        assert awaited(keys.principal(token)).role is tokens.Role.ADMINISTRATOR
    assert len(seen) == (1 if storage.exclusive else 3)
    with pytest.raises(Refusal, match="unknown or revoked"):
        awaited(keys.principal(token[:-3] + "AAA"))
    keys.forget(revoke(storage, token))
    with pytest.raises(Refusal, match="unknown or revoked"):
        awaited(keys.principal(token))


def test_what_was_read_before_a_revocation_is_not_kept_after_it(storage, token, monkeypatch):
    """Read, then revoked, then the reader goes on: this request came before the revocation, the next one did not."""
    keys, glance = TokenCache(storage), storage.glance

    async def both():
        loop = asyncio.get_running_loop()

        def slow(work):
            row = glance(work)
            kid = revoke(storage, token)
            asyncio.run_coroutine_threadsafe(forget(kid), loop).result()
            return row

        async def forget(kid):
            keys.forget(kid)

        with monkeypatch.context() as patched:
            patched.setattr(storage, "glance", slow)
            assert (await keys.principal(token)).name == "administrator:a"
        with pytest.raises(Refusal, match="unknown or revoked"):
            await keys.principal(token)

    awaited(both())


def test_the_cache_has_an_end(storage, token, monkeypatch):
    monkeypatch.setattr(tokens, "CACHED", 1)
    other = storage.change(
        lambda c: tokens.issue_token(
            c, role=tokens.Role.ADMINISTRATOR, name="b", study=None, agent=None, by="test", at="now"
        )
    )[0]
    keys = TokenCache(storage)
    for shown in (token, other, token):
        assert awaited(keys.principal(shown)).kid == tokens.read_token(shown)[0]
    assert len(keys._rows) == (1 if storage.exclusive else 0)


def test_a_token_revoked_by_another_server_opens_nothing_here(storage, database):
    if storage.exclusive:
        with pytest.raises(Exception, match="another process"):
            open_storage(database)
        return
    other = open_storage(database)
    here = House(storage)
    there = House(other, admin=here.token)
    try:
        agent = here.create(study_message(agents=2, arms=2))[0]
        assert agent.plan("trial", "agent 1").due
        there.admin.request("DELETE", "tokens", agent.request("GET", "whoami")["kid"])
        with pytest.raises(NotAllowed, match="revoked"):
            agent.plan("trial", "agent 1")
    finally:
        there.close()
        here.close()
        other.close()


def test_requests_that_come_together_look_together_but_never_by_a_look_from_before(storage, token, monkeypatch):
    """Two hundred requests at once were two hundred looks; sharing one that had begun would miss a revocation."""
    keys, glance, begun = TokenCache(storage), storage.glance, []

    async def many():
        loop, first, go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

        def slow(work):
            begun.append(work)
            row = glance(work)
            loop.call_soon_threadsafe(first.set)
            assert go.wait(30)
            return row

        monkeypatch.setattr(storage, "glance", slow)
        early = asyncio.create_task(keys.principal(token))
        await first.wait()
        await asyncio.to_thread(revoke, storage, token)
        late = [asyncio.create_task(keys.principal(token)) for _ in range(50)]
        await asyncio.sleep(0)
        go.set()
        return await early, await asyncio.gather(*late, return_exceptions=True)

    early, late = awaited(many())
    assert early.role is tokens.Role.ADMINISTRATOR, "asked before the revocation"
    assert {type(found) for found in late} == {Refusal}
    assert len(begun) == 2
    assert not keys._now
    assert not keys._next


def test_a_database_that_does_not_answer_fails_everybody_who_looks(storage, token, monkeypatch):
    keys = TokenCache(storage)

    def down(_):
        raise StorageUnavailable("gone")

    async def many():
        return await asyncio.gather(*(keys.principal(token) for _ in range(5)), return_exceptions=True)

    with monkeypatch.context() as broken:
        broken.setattr(storage, "glance", down)
        found = awaited(many())
    assert {type(error) for error in found} == {StorageUnavailable}
    assert len({id(error) for error in found}) == 5, "each has its own trace"
    assert awaited(keys.principal(token)).role is tokens.Role.ADMINISTRATOR
