"""`parley site assign`, `outcome`, `missing`, `status` against a real coordinator."""

import json
import re
import shutil

import pytest
from click.testing import CliRunner
from tests.coordinator.support import House, study_message

from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.errors import InvalidInput
from parley.protocol import Report


@pytest.fixture
def house(prepared_sqlite, tmp_path):
    storage = open_storage(str(shutil.copy(prepared_sqlite, tmp_path / "parley.db")))
    made = House(storage)
    yield made
    made.close()
    storage.close()


def run(house, folder, *words):
    token = house.tokens["trial", "agent 1"]
    variables = {"PARLEY_SERVER": house.url, "PARLEY_TOKEN": token, "PARLEY_OUTBOX": str(folder / "box")}
    return CliRunner().invoke(main, ["site", *words], env=variables, catch_exceptions=False)


@pytest.mark.servers
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


def test_outcomes_of_a_reported_phase_are_corrected_in_a_file_for_the_administrator(house, tmp_path):
    house.create(study_message(agents=1, arms=2, policy="evidence"))
    for number in range(4):
        run(house, tmp_path, "--study", "trial", "assign", f"p-{number}")
    run(house, tmp_path, "close", "--reason", "too-few-people")
    for number in range(3):
        run(house, tmp_path, "outcome", f"p-{number}", "0.5")
    file = tmp_path / "corrected.json"
    correct = ("correct", "--output", str(file), "--outcome")
    with pytest.raises(InvalidInput, match="allowed: outcomes from a single reported phase"):
        run(house, tmp_path, *correct, "p-0", "1")
    run(house, tmp_path, "missing", "p-3")
    for wrong in ("p-3", "nobody"):
        with pytest.raises(InvalidInput, match="somebody whose outcome was reported"):
            run(house, tmp_path, *correct, wrong, "1")
    with pytest.raises(InvalidInput, match="nothing to correct"):
        run(house, tmp_path, *correct, "p-0", "0.5")
    sent = house.admin.report("trial", 1, "agent 1")
    done = run(house, tmp_path, *correct, "p-0", "1", "--outcome", "p-2", "0.25")
    assert "parley admin correct trial --agent 'agent 1' --phase 1 --file" in " ".join(done.output.split())
    report = Report.read(file.read_text())
    assert sum(report.sums) == sum(sent.sums) + 0.25
    assert (report.counts, report.missing, report.reason, report.plan) == (
        sent.counts, sent.missing, sent.reason, sent.plan)  # fmt: skip
    assert house.admin.report("trial", 1, "agent 1") == sent
    where = ("studies", "trial", "phases", 1, "reports", "agent 1", "correct")
    shown = house.admin.request("POST", *where, "preview", json={"report": report.to_json()})
    body = {"reason": "the wrong line", "preview": shown["digest"], "report": report.to_json()}
    house.admin.request("POST", *where, json=body)
    assert len(house.admin.request("GET", "studies", "trial", "corrections")["corrections"]) == 1


def test_without_a_token_it_says_that_a_complete_phase_is_not_reported(house, tmp_path):
    house.create(study_message(agents=1, arms=2, policy="evidence"))
    run(house, tmp_path, "--study", "trial", "assign", "p-0")
    run(house, tmp_path, "close", "--reason", "too-few-people")
    alone = {"PARLEY_OUTBOX": str(tmp_path / "box"), "PARLEY_TOKEN": None, "PARLEY_TOKEN_FILE": None}
    done = CliRunner().invoke(main, ["site", "outcome", "p-0", "0.5"], env=alone, catch_exceptions=False)
    assert "p-0: 0.5 noted" in done.output
    assert "Not reported, because no token is given" in " ".join(done.output.split())
    assert json.loads(run(house, tmp_path, "status", "--json").output)["phase"] == 2  # with a token it goes out
    assert sum(house.admin.report("trial", 1, "agent 1").counts) == 1


def test_without_a_journal_it_says_how_to_begin(tmp_path):
    with pytest.raises(InvalidInput, match="parley site --study STUDY --token-file FILE"):
        CliRunner().invoke(
            main, ["site", "assign", "p-0"], env={"PARLEY_OUTBOX": str(tmp_path)}, catch_exceptions=False
        )
