"""`parley site assign`, `outcome`, `missing`, `status` against a real coordinator."""

import json
import re

import pytest
from click.testing import CliRunner
from tests.coordinator.support import House, study_message

from parley.cli.main import main
from parley.coordinator.record import initialise, open_storage
from parley.errors import InvalidInput


@pytest.fixture
def house(tmp_path):
    initialise(str(tmp_path / "parley.db"))
    storage = open_storage(str(tmp_path / "parley.db"))
    made = House(storage)
    yield made
    made.close()
    storage.close()


def run(house, folder, *words):
    token = house.tokens["trial", "agent 1"]
    variables = {"PARLEY_SERVER": house.url, "PARLEY_TOKEN": token, "PARLEY_OUTBOX": str(folder / "box")}
    return CliRunner().invoke(main, ["site", *words], env=variables, catch_exceptions=False)


def test_a_phase_person_by_person(house, tmp_path):
    noise = {"kind": "bounded", "low": -1.0, "high": 1.0}
    house.create(study_message(agents=1, arms=2, policy="uniform", noise=noise, site_counts="exact"))
    first = run(house, tmp_path, "--study", "trial", "assign", "p-0")
    assert re.fullmatch(r"p-0: arm [12]\n", first.output)
    assert run(house, tmp_path, "assign", "p-0").output == first.output.replace("\n", " (given before)\n")
    asked = json.loads(run(house, tmp_path, "status", "--json").output)["asked"]
    run(house, tmp_path, "missing", "p-0")
    came = 0
    while json.loads(run(house, tmp_path, "status", "--json").output)["to_assign"]:
        came += 1
        run(house, tmp_path, "assign", f"p-{came}", "--json")
    with pytest.raises(InvalidInput, match="from -1 to 1"):
        run(house, tmp_path, "outcome", "p-1", "3")
    for number in range(1, came + 1):
        if json.loads(run(house, tmp_path, "status", "--json").output)["phase"] == 1:  # the reserve is not waited for
            run(house, tmp_path, "outcome", f"p-{number}", "-0.5")
    told = json.loads(run(house, tmp_path, "status", "--json").output)
    assert told["phase"] == 2
    report = house.admin.report("trial", 1, "agent 1")
    assert sum(report.counts) == asked
    assert sum(report.sums) == -0.5 * asked
    assert "Phase 2" not in run(house, tmp_path, "status").output


def test_a_site_closes_its_part_early(house, tmp_path):
    house.create(study_message(agents=1, arms=2, policy="evidence"))
    for number in range(4):
        run(house, tmp_path, "--study", "trial", "assign", f"p-{number}")
    refused = run(house, tmp_path, "close", "--reason", "more-people")  # no reason to assign nobody more
    assert (refused.exit_code, "'more-people' is not one of" in refused.output) == (2, True)
    run(house, tmp_path, "close", "--reason", "too-few-people")
    run(house, tmp_path, "missing", "p-0")
    for number in range(1, 4):
        run(house, tmp_path, "outcome", f"p-{number}", "0.5")
    report = house.admin.report("trial", 1, "agent 1")
    assert (sum(report.counts), sum(report.missing), report.reason, report.final) == (3, 1, "too-few-people", True)


def test_without_a_token_it_says_that_a_complete_phase_is_not_reported(house, tmp_path):
    house.create(study_message(agents=1, arms=2, policy="evidence"))
    run(house, tmp_path, "--study", "trial", "assign", "p-0")
    run(house, tmp_path, "close", "--reason", "too-few-people")
    alone = {"PARLEY_OUTBOX": str(tmp_path / "box"), "PARLEY_TOKEN": None, "PARLEY_TOKEN_FILE": None}
    done = CliRunner().invoke(main, ["site", "outcome", "p-0", "0.5"], env=alone, catch_exceptions=False)
    assert "p-0: 0.5 noted" in done.output
    assert "Not reported: no token is given" in " ".join(done.output.split())
    assert json.loads(run(house, tmp_path, "status", "--json").output)["phase"] == 2  # with a token it goes out
    assert sum(house.admin.report("trial", 1, "agent 1").counts) == 1


def test_without_a_journal_it_says_how_to_begin(tmp_path):
    with pytest.raises(InvalidInput, match="parley site --study STUDY --token-file FILE"):
        CliRunner().invoke(
            main, ["site", "assign", "p-0"], env={"PARLEY_OUTBOX": str(tmp_path)}, catch_exceptions=False
        )
