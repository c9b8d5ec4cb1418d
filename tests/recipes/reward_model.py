"""Run with a copy of the product that has one more reward model, `coin`: everything that should know it does.

`test_reward_model.py` makes the copy.
"""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from tests.dashboard.site import MEANS, TWO, site
from tests.recipes.support import capture
from tests.support import random_instance
from tools.correctness.near_ties import allowance

import parley
from parley.errors import ParleyError
from parley.protocol import StudyMessage
from parley.rewards import make_model, noise_keys
from parley.study import parse_study

ASKED = f"{TWO.partition('[noise]')[0]}\n[noise]\nkind = 'coin'\nscale = 0.5\n"


def main(folder):
    """The study file, the wire, the simulator, the commands and the pages."""
    assert '`"coin"`: above or below the mean' in noise_keys()["kind"].meaning
    study = parse_study(tomllib.loads(ASKED))
    assert study.problem.noise.document() == {"kind": "coin", "scale": 0.5}
    message = StudyMessage.of(study)
    assert StudyMessage.read(message.text).problem.noise == study.problem.noise
    with pytest.raises(ParleyError, match=r"low.*allowed: one of kind, scale"):
        make_model(kind="coin", low=0)

    replications = 200
    for seed in range(2):
        instance = random_instance(seed, arms=3, agents=2, min_gap=0.3, delta=0.1)
        problem = instance.problem.with_(noise=make_model(kind="coin", scale=0.8))
        instance = parley.Instance(problem=problem, means=instance.means)
        for policy in ("evidence", "wcpe"):
            outcome = parley.simulate(parley.make_policy(policy, problem), instance, replications=replications, seed=1)
            assert outcome.error_rate <= allowance(0.1, replications)

    file = folder / "asked.toml"
    file.write_text(f"{ASKED}\n[truth]\nmeans = {MEANS.tolist()}\n")
    found = json.loads(capture("simulate", str(file), "--replications", "5", "--environment", "coin", "--json"))
    assert found["error_rate"] <= 1
    assert json.loads(capture("bounds", str(file), "--json"))["bai"]["value"] > 0
    few = ["--gap", "0.5", "--instances", "1", "--replications", "1", "--output", str(folder / "p.html"), "--json"]
    assert json.loads(capture("plan", str(file), *few))

    with site(folder) as here, here.browser() as browser:
        here.create(ASKED, "asked")
        assert here.call("GET", "studies/asked/document")["noise"] == {"kind": "coin", "scale": 0.5}
        shown = browser.post("/new", data={"do": "estimate", "study": ASKED})
        assert shown.status_code == 200, shown.text


if __name__ == "__main__":
    assert Path(parley.__file__).is_relative_to(sys.argv[1]), "the copy, not the product"
    main(Path(sys.argv[1]).resolve())
