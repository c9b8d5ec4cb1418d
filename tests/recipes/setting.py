"""Run with a copy of the product that has one more setting, `patience`: everything that should know it does.

`test_setting.py` makes the copy and says which lines it added.
"""

import json
import sys
import tomllib
from pathlib import Path

import pytest
from tests.dashboard.site import MEANS, TWO, site
from tests.recipes.support import capture

import parley
from parley.bounds.paper import twice_the_patience
from parley.errors import InvalidInput
from parley.experiments.sweeps.sweep import checked_axis
from parley.protocol import StudyMessage
from parley.study import SECTIONS, parse_study

ASKED = TWO.replace("[weights]", "[imaginary]\npatience = 4\n\n[weights]")
TOLD = "somebody waits 4 days"


def main(folder):
    plain, asked = (parse_study(tomllib.loads(text)) for text in (TWO, ASKED))
    assert (plain.problem.patience, asked.problem.patience) == (0, 4)
    assert twice_the_patience(asked.problem) == 8
    assert asked.problem.with_(delta=0.2).patience == 4
    assert plain.problem.with_(patience=3).patience == 3
    assert SECTIONS["imaginary"]["patience"].meaning == "days that somebody waits"
    assert checked_axis("imaginary.patience", [1, 2]) == [1, 2]

    for study, stored in ((plain, False), (asked, True)):
        message = StudyMessage.of(study)
        assert ("patience" in message.to_json()) == stored
        assert StudyMessage.read(message.text) == message
        assert message.problem.patience == study.problem.patience
    for wrong in (-1, True, "x", 1.5, None, [1]):
        with pytest.raises(InvalidInput, match="patience: found"):
            plain.problem.with_(patience=wrong)
        with pytest.raises(InvalidInput, match="patience: found"):
            StudyMessage.from_json({**StudyMessage.of(plain).to_json(), "patience": wrong})

    truth = f"\n[truth]\nmeans = {MEANS.tolist()}\n"
    file = folder / "asked.toml"
    file.write_text(ASKED + truth)
    out = capture("simulate", str(file), "--replications", "2")
    assert TOLD in out, out
    assert json.loads(capture("simulate", str(file), "--replications", "2", "--json"))["patience"] == 4
    page = folder / "plan.html"
    few = ["--gap", "0.5", "--instances", "1", "--replications", "1", "--output", str(page), "--json"]
    assert json.loads(capture("plan", str(file), *few))["patience"] == 4
    assert "Somebody waits 4 days." in page.read_text()

    with site(folder) as here, here.browser() as browser:
        here.create(ASKED, "asked")
        here.create(TWO, "plain")
        assert here.call("GET", "studies/asked")["settings"]["patience"] == 4
        assert here.call("GET", "studies/asked")["descriptions"] == {"imaginary.patience": TOLD}
        assert here.call("GET", "studies/plain")["settings"]["patience"] == 0
        assert "Somebody waits 4 days." in browser.get("/studies/asked").text
        form = browser.get("/new")
        assert "imaginary.patience" in form.text
        assert "days that somebody waits" in form.text
        shown = browser.post("/new", data={"do": "estimate", "study": ASKED})
        assert "Somebody waits 4 days" in shown.text


if __name__ == "__main__":
    assert Path(parley.__file__).is_relative_to(sys.argv[1]), "the copy, not the product"
    main(Path(sys.argv[1]).resolve())
