"""The table of flaws is up to date, and a few are tried in every run; `make mutants` tries all."""

import numpy as np
import pytest
from tests.support import paper_study
from tools.mutants.__main__ import main
from tools.mutants.run import ROOT, SOURCE, passes, patched
from tools.mutants.table import MUTANTS

from parley import make_policy, simulate

QUICK = ("weights are transposed", "beta without its factor 2")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.flaw)
def test_every_flaw_can_still_be_put_in(mutant):
    assert patched(mutant)


def test_every_flaw_names_a_test_that_there_is():
    """A name that is no test fails with the flaw and without it, so that a flaw would look noticed."""
    shipped = "".join(path.read_text(encoding="utf-8") for path in (SOURCE / "testing").rglob("*.py"))
    for mutant in MUTANTS:
        file, *parts = mutant.test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        inherited = shipped if "class Test" in text else ""
        if parts:
            assert f"def {parts[-1].partition('[')[0]}(" in text + inherited, mutant.test


def test_there_are_enough_flaws_and_each_has_its_own_name():
    assert len({mutant.flaw for mutant in MUTANTS}) == len(MUTANTS) >= 25


def test_flaws_are_listed_by_name_without_being_tried(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["mutants", "--list", *QUICK])
    main()
    assert [line.partition(": ")[2] for line in capsys.readouterr().out.splitlines()] == [
        mutant.flaw for mutant in MUTANTS if mutant.flaw in QUICK
    ]
    for words, status in ((["--help"], 0), (["no such flaw"], 2)):
        monkeypatch.setattr("sys.argv", ["mutants", *words])
        with pytest.raises(SystemExit) as left:
            main()
        assert left.value.code == status


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.flaw in QUICK], ids=lambda mutant: mutant.flaw
)
@pytest.mark.mutants
def test_a_flaw_is_noticed(mutant):
    caught, said = passes(mutant.test, mutant)
    assert not caught, said


def test_blocks_draw_their_own_rewards():
    study = paper_study()
    costs = simulate(make_policy("evidence", study.problem), study.instance, replications=512, seed=1).costs
    assert not np.array_equal(costs[:256], costs[256:])
