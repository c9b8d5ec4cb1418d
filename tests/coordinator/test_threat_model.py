"""The table of docs/appendix/threat-model.md is true: each claim names tests that exist, and mutants they catch."""

import pytest
from tools.chaos.mutant import KEPT
from tools.chaos.mutants import MUTANTS, PROMISED, ROOT
from tools.promises import BY_NAME, threat_rows

CLAIMS = threat_rows()


@pytest.mark.parametrize("claim", CLAIMS)
def test_each_claim_names_its_tests_and_mutants_that_they_catch(claim):
    files, names = CLAIMS[claim]
    assert files
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert [name for name in names if name not in BY_NAME] == []
    assert {BY_NAME[name].place.split("::")[0] for name in names} <= set(files)


def test_every_mend_of_a_hostile_trial_is_in_the_table():
    undone = {mutant.name for mutant in MUTANTS} - {mutant.name for mutant in PROMISED}
    assert undone <= {name for _, names in CLAIMS.values() for name in names}
    assert {BY_NAME[name].breaks for name in undone} >= set(KEPT.values())
