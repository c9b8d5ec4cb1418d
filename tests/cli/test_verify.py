"""What a site and an auditor learn from `parley verify`, and without it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.agent.test_not_fooled import portal
from tests.coordinator.support import House, far_off, report_of, study_message
from tests.support import first_quick

from parley.agent.outbox import Outbox
from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.coordinator.record.writer import enact, locked
from parley.errors import BrokenChain, InvalidInput, Unreachable
from parley.protocol import Record
from parley.protocol.events import Signed

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "recompute_chain.py"
GOLDEN = ROOT / "tests" / "golden" / "protocol"


@pytest.fixture
def house(prepared_sqlite, tmp_path):
    storage = open_storage(str(shutil.copy(prepared_sqlite, tmp_path / "parley.db")))
    made = House(storage)
    yield made
    made.close()
    storage.close()


def run(*words):
    done = CliRunner().invoke(main, list(words), catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


@pytest.fixture
def amended(house, tmp_path):
    """A study in which an administrator amended agent 1's first report; both agents' outboxes."""
    agents = house.create(study_message(agents=2, arms=2, policy="uniform"))
    for place, client in enumerate(agents):
        name = f"agent {place + 1}"
        with Outbox(tmp_path / f"outbox {place + 1}", study="trial", agent=name) as box:
            report = report_of(client.plan("trial", name), place)
            box.keep(report)
            if place == 1:  # before the phase is decided
                first = report_of(agents[0].plan("trial", "agent 1"), 0)
                other = replace(first, sums=tuple(total / 2 for total in first.sums))
                address = ("studies", "trial", "phases", 1, "reports", "agent 1", "amend")
                house.admin.request("POST", *address, json={"reason": "a slip", "report": other.to_json()})
            box.acknowledge(client.send(report))
        (box.folder / "receipts" / "notes.json").write_text("not a receipt")
    log = tmp_path / "trial.ndjson"
    log.write_text("\n".join(house.admin.export("trial")))
    return log


def test_a_site_learns_that_its_report_was_amended(house, amended, tmp_path):
    said = " ".join(run("verify", str(amended), "--receipts", str(tmp_path / "outbox 1")).split())
    assert "Sound." in said
    assert "Amended: the report of 'agent 1' in phase 1 does not count as it was sent; administrator:root" in said
    assert "a slip" in said
    told = json.loads(run("verify", str(amended), "--receipts", str(tmp_path / "outbox 1"), "--json"))["amended"]
    assert [(entry["phase"], entry["agent"], entry["reason"]) for entry in told] == [(1, "agent 1", "a slip")]
    stored = run("verify", "trial", "--db", str(house.storage.path), "--receipts", str(tmp_path / "outbox 1"))
    assert "Amended: " in stored
    assert "Amended" not in run("verify", str(amended), "--receipts", str(tmp_path / "outbox 2")), "not its own"


def test_what_somebody_wrote_is_no_line_of_ours(house, tmp_path):
    """A log may have been written by anybody; our own coordinator takes no such name."""
    house.create(study_message(agents=2, arms=2, policy="uniform"))
    event = Signed(principal="analyst:eve", name="Eve\nSigned: Ada Example", meaning="no")
    house.storage.change(lambda t: enact(t, locked(t, "trial"), event, actor="analyst:eve", at="now"))
    (tmp_path / "trial.ndjson").write_text("\n".join(house.admin.export("trial")))
    said = run("verify", str(tmp_path / "trial.ndjson")).splitlines()
    assert [line for line in said if line.startswith("Signed: ")] == [line for line in said if "Eve" in line]


def held_in_phase_two(house, tmp_path):
    """A site whose second report is held, with the receipt of its first; that report, and one that might be meant."""
    (client,) = house.create(study_message(agents=1, arms=2, policy="evidence", noise={"scale": 1.0}))
    with Outbox(tmp_path / "box", study="trial", agent="agent 1") as box:
        box.acknowledge(client.send(report_of(client.plan("trial", "agent 1"), 0)))
    meant = report_of(client.plan("trial", "agent 1"), 0)
    with pytest.raises(Unreachable, match="waits until an administrator"):
        client.send(far_off(meant))
    return client, far_off(meant), meant


def said_after_taking(house, tmp_path, report):
    address = ("studies", "trial", "phases", 2, "reports", "agent 1", "amend")
    house.admin.request("POST", *address, json={"reason": "looked at", "report": report.to_json()})
    log = tmp_path / "held.ndjson"
    log.write_text("\n".join(house.admin.export("trial")))
    return " ".join(run("verify", str(log), "--receipts", str(tmp_path / "box")).split())


def test_a_site_learns_that_another_report_was_taken_than_its_one_that_was_held(house, tmp_path):
    """It has no receipt for that place, since what it sent was never taken."""
    _, _, meant = held_in_phase_two(house, tmp_path)
    said = said_after_taking(house, tmp_path, meant)
    assert "Amended: the report of 'agent 1' in phase 2 does not count as it was sent; administrator:root" in said


def test_a_held_report_that_is_taken_as_it_was_sent_is_not_called_amended(house, tmp_path):
    client, held, _ = held_in_phase_two(house, tmp_path)
    assert "Amended" not in said_after_taking(house, tmp_path, held)
    with Outbox(tmp_path / "box", study="trial", agent="agent 1") as box:
        box.acknowledge(client.send(held))
    said = " ".join(run("verify", str(tmp_path / "held.ndjson"), "--receipts", str(tmp_path / "box")).split())
    assert "2 receipts found" in said
    assert "Amended" not in said


def test_the_log_of_another_study_is_not_taken_for_the_one_asked_for(house, amended, monkeypatch):
    monkeypatch.setenv("PARLEY_TOKEN", house.token)
    assert "Sound." in run("verify", "trial", "--server", house.url)
    answer = (200, "application/x-ndjson", amended.read_bytes())
    with portal(house, answer, every=1) as address, pytest.raises(BrokenChain, match="the log of 'trial', not that of"):
        run("verify", "other", "--server", address)


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("study-created", ("plan", "quotas", 1), []),
        ("report-accepted", ("report", "counts", 0), -(2**53)),
        ("phase-closed", ("decision", "counts", 0), []),
    ],
)
def test_a_log_that_no_coordinator_wrote_is_not_sound_and_no_fault_of_ours(tmp_path, kind, place, value):
    """Its chain is right: whoever runs the server can write anything, and chain it."""
    lines = [json.loads(line) for line in (GOLDEN / "log-closed-early.ndjson").read_text(encoding="utf-8").splitlines()]
    target = next(line for line in lines if line["kind"] == kind)["payload"]
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = value
    last, written = None, []
    for line in lines:
        kept = {key: line.get(key) for key in ("stream", "at", "actor", "kind", "payload", "salt")}
        last = Record.after(last, **kept)
        written.append(last.text)
    (tmp_path / "log.ndjson").write_text("\n".join(written), encoding="utf-8")
    with pytest.raises(BrokenChain, match="is not sound: record"):
        run("verify", str(tmp_path / "log.ndjson"))


def recomputed(*paths):
    return subprocess.run(
        [sys.executable, "-I", str(SCRIPT), *map(str, paths)], capture_output=True, text=True, check=False
    )


def test_a_chain_is_recomputed_without_our_code(amended, tmp_path):
    receipts = [next((tmp_path / f"outbox {place}").rglob("receipts/1.json")) for place in (1, 2)]
    done = recomputed(amended, *receipts)
    assert done.returncode == 0, done.stderr
    head = json.loads(amended.read_text().splitlines()[-1])["hash"]
    assert done.stdout.endswith(f"and 2 receipts fit; the head is {head}\n")
    wrong = tmp_path / "wrong.ndjson"
    wrong.write_text(amended.read_text().replace("a slip", "a trip"))
    assert "was changed" in recomputed(wrong).stderr
    receipts[0].write_text(re.sub(r'"report":"\w', '"report":"x', receipts[0].read_text()))
    assert "receipt was given for" in recomputed(amended, receipts[0]).stderr


@pytest.mark.parametrize("log", first_quick(*sorted(GOLDEN.glob("log-*.ndjson")), quick=2), ids=lambda log: log.stem)
def test_so_is_every_golden_one(log):
    assert recomputed(log).returncode == 0


def test_the_script_is_short_and_needs_nothing():
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30
    assert {line.split()[1] for line in lines if line.startswith("import")} <= sys.stdlib_module_names | {"rfc8785"}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"\x7fELF\x02\x01\x01" + bytes(range(256)), "line 1 is not a record"), (b"\xff\xfe{\x00}\x00\n", "line 1"),
     (b"PK\x03\x04" * 99, "line 1 is not a record"), (b"", "no record")],
    ids=["a program", "UTF-16", "an archive", "nothing"],
)  # fmt: skip
def test_a_file_that_is_no_log_is_refused_as_one(tmp_path, content, words):
    """By a sentence that names the line, not as a fault of Parley; so is a file of receipts that is none."""
    file = tmp_path / "file.bin"
    file.write_bytes(content)
    with pytest.raises(BrokenChain, match=words):
        run("verify", str(file))
    if content:
        with pytest.raises(InvalidInput, match="receipt"):
            run("verify", str(GOLDEN / "log-gaussian.ndjson"), "--receipts", str(file))


@pytest.mark.parametrize("where", ["record", "payload"])
def test_a_key_twice_does_not_verify(tmp_path, where):
    """Readers differ in which of the two they take: a line that one of them reads otherwise proves nothing."""
    lines = (GOLDEN / "log-gaussian.ndjson").read_text(encoding="utf-8").splitlines()
    file = tmp_path / "twice.ndjson"
    file.write_text("\n".join(json.dumps(json.loads(line)) for line in lines), encoding="utf-8")
    assert "Sound." in run("verify", str(file)), "spaces and the order of keys are nobody's business"
    start = '{"actor":"a friend",' if where == "record" else '"payload":{"schema":"parley/event/other/1",'
    lines[1] = lines[1].replace("{" if where == "record" else '"payload":{', start, 1)
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(BrokenChain, match=r"line 2 is not a record: record: found the key .* twice"):
        run("verify", str(file))
