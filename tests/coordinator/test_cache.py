"""What is cached stays within its bounds, and is computed once."""

import threading
import time

import pytest

from parley.coordinator.record.base import Cache, RecordCache


def kept(known, keys):
    return [key for key in keys if key in known]


def test_a_largest_weight_and_the_newest_is_kept_however_heavy():
    known = Cache(10, weigh=lambda value: value, heaviest=20)
    for key, weight in enumerate((9, 9, 9, 9)):
        known.put(key, weight)
    assert kept(known, range(4)) == [2, 3]
    known.put("heavy", 100)
    assert kept(known, (0, 1, 2, 3, "heavy")) == ["heavy"]
    known.put("heavy", 1)
    known.put("light", 18)
    assert len(known) == 2, "what was replaced weighs nothing any more"


def test_what_was_asked_for_last_is_forgotten_last():
    known = Cache(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert kept(known, "abc") == ["a", "c"]


def test_many_threads_make_a_thing_once():
    known, made = Cache(4), []

    def make():
        made.append(1)
        time.sleep(0.05)
        return "thing"

    threads = [threading.Thread(target=known.get_or_compute, args=("key", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert known._computing == {}


def test_what_cannot_be_computed_is_not_kept_and_holds_up_nobody():
    known = Cache(4)
    for _ in range(2):
        with pytest.raises(KeyError):
            known.get_or_compute("key", lambda: {}["missing"])
    assert known.get_or_compute("key", lambda: 3) == 3
    assert known._computing == {}


def test_studies_are_weighed_by_their_weights():
    class Study:
        def __init__(self, agents):
            self.agents = range(agents)

    cache = RecordCache()
    for number in range(3):
        cache.studies.put(number, Study(1500))
    assert kept(cache.studies, range(3)) == [1, 2]
