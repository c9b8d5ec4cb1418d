"""A new policy is its file and its name in the registry; the conformance suite, the simulator and a study know it."""

import json

from tests.recipes.support import ROOT
from tests.support import code_of_page

# The policy of the tutorial.
DOUBLING = code_of_page("docs/tutorials/own-policy.md", "class Doubling")


def test_a_policy_is_two_files(product):
    product.new("policies/doubling.py", DOUBLING)
    product.put(
        "policies/__init__.py",
        "from parley.policies.doubling import Doubling\n",
        before="from parley.policies.evidence.racing import",
    )
    product.put("policies/__init__.py", "Doubling, ", after="*(EvidenceRacing, ")
    assert len(product.touched) == 2

    summary = product.passes("tests/policies/test_conformance.py", "-k", "doubling")
    assert "passed" in summary
    assert int(summary.split()[0]) >= 10, "the conformance suite runs over it"
    study = str(ROOT / "examples" / "paper.toml")
    words = ("--policy", "doubling", "--replications", "20", "--seed", "1", "--json")
    found = json.loads(product.run("parley", "simulate", study, *words))
    assert found["policy"] == "doubling"
    assert found["error_rate"] <= 0.1
