"""Tokens are remembered where nobody else can revoke them, and never longer than they hold."""

import asyncio

import pytest
from tests.coordinator.support import House, study_message
from tests.support import awaited

from parley.coordinator.access import auth, keyring
from parley.coordinator.access.keyring import Keyring
from parley.coordinator.problems import Refusal
from parley.coordinator.record import open_storage
from parley.errors import NotAllowed


@pytest.fixture
def token(storage):
    return storage.change(
        lambda c: auth.issue_token(
            c, role=auth.Role.ADMINISTRATOR, name="a", study=None, agent=None, by="test", at="now"
        )
    )[0]


def revoke(storage, token):
    kid = auth.read_token(token)[0]
    storage.change(lambda c: auth.revoke(c, kid, by="test", at="later"))
    return kid


def looks(storage, monkeypatch):
    """How often the database is asked from now on."""
    seen, glance = [], storage.glance
    monkeypatch.setattr(storage, "glance", lambda work: seen.append(work) or glance(work))
    return seen


def test_a_token_shown_again_is_looked_up_only_where_another_process_may_revoke_it(storage, token, monkeypatch):
    keys, seen = Keyring(storage), looks(storage, monkeypatch)
    for _ in range(3):
        assert awaited(keys.principal(token)).role is auth.Role.ADMINISTRATOR
    assert len(seen) == (1 if storage.exclusive else 3)
    with pytest.raises(Refusal, match="unknown or revoked"):
        awaited(keys.principal(token[:-3] + "AAA"))
    keys.forget(revoke(storage, token))
    with pytest.raises(Refusal, match="unknown or revoked"):
        awaited(keys.principal(token))


def test_what_was_read_before_a_revocation_is_not_kept_after_it(storage, token, monkeypatch):
    """Read, then revoked, then the reader goes on: this request came before the revocation, the next one did not."""
    keys, glance = Keyring(storage), storage.glance

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


def test_the_ring_has_an_end(storage, token, monkeypatch):
    monkeypatch.setattr(keyring, "REMEMBERED", 1)
    other = storage.change(
        lambda c: auth.issue_token(
            c, role=auth.Role.ADMINISTRATOR, name="b", study=None, agent=None, by="test", at="now"
        )
    )[0]
    keys = Keyring(storage)
    for shown in (token, other, token):
        assert awaited(keys.principal(shown)).kid == auth.read_token(shown)[0]
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
