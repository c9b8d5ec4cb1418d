"""No request stops the server: each attack of a hostile trial, small. At length: `python -m tools.chaos attacks`."""

import asyncio
import json
import threading
import time
from contextlib import ExitStack

import pytest
from tests.coordinator.support import report_of, study_message
from tests.support import awaited

from parley.coordinator.http.app import COMPUTATIONS
from parley.coordinator.http.context import Pool, Throttle
from parley.coordinator.problems import Refusal
from parley.dashboard.pages.new_study import uploaded_study
from parley.errors import InvalidInput, Rejected, Unreachable
from parley.study import load_study


def refused(client, document):
    """Sent as a report; how the refusal reads, how long it is, and how long this process, the server's, computed."""
    path = "/v1/studies/trial/phases/1/reports/agent%201"
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    begun = time.process_time()
    answer = client._http.put(path, content=content, headers={"Content-Type": "application/json"})
    return answer, time.process_time() - begun


HOSTILE = {
    "wrong values": lambda good: good | {"counts": ["x"] * 90_000},
    "wrong numbers": lambda good: good | {"sums": [None] * 90_000, "squares": ["y"] * 50_000},
    "unknown keys": lambda good: good | {f"k{number}": 1 for number in range(60_000)},
    "a deep list": lambda _: b"[" * 500_000,
    "a deep object": lambda _: b'{"a":' * 2_000 + b"1" + b"}" * 2_000,
    "a long number": lambda _: b'{"counts": [' + b"1" * 5_000 + b"]}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_refused_shortly_and_at_once(house, name):
    agents = house.create(study_message(agents=2, arms=2))
    good = report_of(agents[0].plan("trial", "agent 1"), 0).to_json()
    answer, seconds = refused(agents[0], HOSTILE[name](good))
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 4_000
    assert seconds < 5


SHAPES = {
    "unknown keys": "at most 2500 keys",
    "a deep list": "at most 2500 lists and objects",
    "a deep object": "nested more than 32 deep",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_body_of_another_shape_than_any_is_not_read(sqlite_house, name):
    """Also where nothing else says how long it may be."""
    made = HOSTILE[name]({})
    content = made if isinstance(made, bytes) else json.dumps(made)
    with pytest.raises(Rejected, match=SHAPES[name]):
        sqlite_house.admin.request("POST", "tokens", content=content, headers={"Content-Type": "application/json"})


def test_large_requests_take_more_of_the_allowed_rate():
    pace = Throttle(rate=1, burst=20, timer=lambda: 0.0)
    assert pace.wait("a", 10) == pace.wait("a", 10) == 0
    assert pace.wait("a", 1) == 1
    assert pace.wait("b", 1e9) == 0, "what is allowed at all is possible"


def test_heavy_work_of_one_token_leaves_room_for_others(house):
    """The attack of the trial: 70 verifications at once took every thread."""
    message = study_message(agents=2, arms=2, policy="uniform")
    house.run(message, house.create(message))
    analyst, other = house.issue("analyst", name="x"), house.issue("analyst", name="y")
    kinds, done = [], threading.Barrier(41)

    def verify():
        done.wait(120)
        try:
            kinds.append(analyst.request("POST", "studies", "trial", "verify", timeout=60)["sound"])
        except Unreachable as error:
            kinds.append(error.problem["type"].rsplit(":", 1)[-1])

    threads = [threading.Thread(target=verify) for _ in range(40)]
    for thread in threads:
        thread.start()
    done.wait(120)
    begun = time.monotonic()
    assert other.status("trial")["stage"] == "finished"
    assert time.monotonic() - begun < 60  # at length, and to the tenth of a second: tools/chaos/attacks.py
    assert other.request("POST", "studies", "trial", "verify", timeout=60)["sound"], "others have their turn"
    for thread in threads:
        thread.join()
    assert kinds.count(True) >= COMPUTATIONS["of_one"]
    assert kinds.count("too-fast") + kinds.count("too-busy") > 0
    assert len(kinds) == 40


def test_heavy_work_of_one_token_is_bounded_and_leaves_a_place_for_others():
    """The same without a race: works that last until they are told to end."""
    bounded, told = Pool(**COMPUTATIONS, words="long computations"), threading.Event()

    async def ask(key):
        return await bounded.run(key, lambda: told.wait(30))

    async def many():
        asked = [asyncio.ensure_future(ask("a")) for _ in range(COMPUTATIONS["of_one"])]
        await asyncio.sleep(0)
        try:
            with pytest.raises(Refusal, match="in progress"):
                await asyncio.wait_for(ask("a"), 2)
            asked.append(asyncio.ensure_future(ask("b")))
            await asyncio.sleep(0)
        finally:
            told.set()
        assert await asyncio.gather(*asked) == [True] * (COMPUTATIONS["of_one"] + 1)

    awaited(many())


def test_one_token_follows_so_many_streams_and_no_more(sqlite_house):
    sqlite_house.create(study_message(agents=2, arms=2))
    sqlite_house.issue("viewer", name="v")
    client = sqlite_house.client(sqlite_house.tokens[None, None], connected=True)
    with ExitStack() as stack:
        codes, lines = [], []
        for _ in range(40):
            response = stack.enter_context(client._http.stream("GET", "/v1/studies/trial/events", timeout=60))
            codes.append(response.status_code)
            if response.status_code == 200:
                lines.append(response.iter_lines())
                next(lines[-1])
    assert codes.count(200) == 32
    assert codes.count(429) == 8


TEXTS = {
    "many agents": ("arms = 2\nagents = 6000", "agents"),
    "many cells": ("arms = 90000\nagents = 1999", "cells"),
    "many dots": ("a" + ".a" * 20_000 + " = 1", "dots"),
    "many dots in a table": ("x = {b = 1, a" + ".a" * 20_000 + " = 1}", "dots"),
    "many dots in a header": ("[a" + ".a" * 20_000 + "]", "dots"),
    "a long number": ("arms = " + "1" * 5_000, "valid TOML"),
    "a deep list": ("arms = " + "[" * 5_000, "valid TOML"),
    "a deep table": ("arms = " + "{a=" * 5_000, "valid TOML"),
    "a huge number": ("arms = 2\nagents = 1" + "0" * 300, "agents"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_study_file_is_refused_at_once(name, tmp_path):
    text, words = TEXTS[name]
    begun = time.process_time()
    with pytest.raises(InvalidInput, match=words):
        uploaded_study(text)
    assert time.process_time() - begun < 3
    if "TOML" in words or words == "dots":  # a file of one's own may have more agents
        (tmp_path / "study.toml").write_text(text)
        with pytest.raises(InvalidInput, match=words):
            load_study(tmp_path / "study.toml")


def test_dots_that_are_no_keys_are_many_as_they_like():
    row = ", ".join(["0.5"] * 2)
    names = ", ".join(f'"Dr. J. R. R. {letter}."' for letter in "ab")
    study = (
        f'arms = [{names}]\nagents = 2\nname = "{". " * 30}x"\n[weights]\nkind = "matrix"\nmatrix = [[{row}], [{row}]]'
    )
    assert uploaded_study(study).agents


def test_a_report_that_is_too_long_for_its_study_is_refused_before_it_is_looked_at(house):
    agents = house.create(study_message(agents=2, arms=2))
    good = report_of(agents[0].plan("trial", "agent 1"), 0).to_json()
    for many, words in ((500, "500 counts.*2 of each"), (40_000, "bytes: allowed are 2 of each")):
        long = good | {"counts": [1] * many, "sums": [0.0] * many, "squares": [0.0] * many}
        with pytest.raises(Rejected, match=words):
            agents[0].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=long)
