"""Promise 13: the tests bite. Each mutant of the coordinator makes the test of the promise that it breaks fail.

That the same tests pass without a mutant is seen where they stand, in the same run; `make chaos` has that control, too.
"""

import pytest
from tools.chaos.mutants import MUTANTS
from tools.chaos.nest import Nest

SHORT = [mutant for mutant in MUTANTS if not mutant.long]


@pytest.fixture(scope="module")
def nest():
    made = Nest()
    yield made
    made.close()


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", SHORT, ids=lambda mutant: mutant.name)
def test_a_broken_promise_is_caught(nest, mutant):
    assert not nest.missed(mutant)


@pytest.mark.mutants
def test_every_mutant_can_still_be_put_in(nest):
    """Most are only run by `make chaos`; that one is out of date is seen at once."""
    assert [mutant.name for mutant in MUTANTS if not nest.fits(mutant)] == []


def test_every_mutant_has_its_own_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
