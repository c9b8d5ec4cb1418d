"""After whatever acts and however a study ended, everybody gets every page, report, export and command of it."""

import os
import shutil

import pytest
from tests.coordinator.support import House
from tests.dashboard.walks import (
    ENDINGS,
    ROLES,
    STORY,
    STUDIES,
    Readers,
    Walk,
    commands,
    message,
    oddities,
    out_of_range,
)

from parley.coordinator.access.tokens import prepare
from parley.coordinator.http.guard import settled
from parley.coordinator.record import open_storage
from parley.dashboard import session
from parley.text.translation import AUDIENCES

WALKS = int(os.environ.get("PARLEY_WALKS", "2"))
STEPS = 25


@pytest.fixture(scope="module")
def house(prepared_sqlite, tmp_path_factory):
    database = str(shutil.copy(prepared_sqlite, tmp_path_factory.mktemp("walks") / "parley.db"))
    token = prepare(database, name="office")[2]
    storage = open_storage(database)
    made = House(storage, admin=token)
    made.readers = Readers(made)
    with pytest.MonkeyPatch.context() as patch:
        # A page of a fault says nothing about it; the test shall.
        patch.setattr(session, "settled", lambda error: made.readers.note(error) or settled(error))
        yield made
    made.readers.close()
    made.close()
    storage.close()


def rendered(house, walk, roles=ROLES):
    """Every page and operation, for everybody; what a page says is fit to be read."""
    for role, address, answer in house.readers.everything(walk.id, roles=roles):
        if answer.headers["content-type"].startswith("text/html") and answer.status_code == 200:
            found = oddities(answer.text, (walk.study.name,)) + out_of_range(answer.text)
            assert not found, (walk.done, role, address, found)


def test_a_study_to_which_much_happened(house, tmp_path):
    """The page of its answer failed whenever a planned draw was left out."""
    walk = Walk(house, message("rates", "trial"), seed=5, study_id="story")
    for act in STORY:
        walk.step(act)
    assert set(STORY) <= set(walk.done), walk.done
    assert walk.status["stage"] == "finished"
    assert walk.ask("GET", "certificate")["left_out"]
    rendered(house, walk, roles=("administrator", "viewer"))
    for words, told in commands(house, walk.id, tmp_path):
        assert told, words


@pytest.mark.simulations
@pytest.mark.parametrize("kind", STUDIES)
def test_whatever_happened(house, tmp_path, kind):
    for seed in range(WALKS):
        audience = AUDIENCES[seed % len(AUDIENCES)]
        walk = Walk(house, message(kind, audience), seed, f"{kind.replace(' ', '-')}-{seed}")
        for step in range(STEPS):
            walk.step()
            if step % 8 == 7:
                rendered(house, walk, roles=ROLES[:1])
        walk.end(ENDINGS[seed % len(ENDINGS)])
        rendered(house, walk)
        for words, told in commands(house, walk.id, tmp_path):
            assert told, words
