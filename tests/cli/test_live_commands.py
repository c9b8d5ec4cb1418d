"""The commands of a live study, as an administrator, a site and an auditor type them."""

import csv
import io
import json
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx2
import numpy as np
import pytest
from click.testing import CliRunner
from tests.coordinator.support import House, report_of, server_process, study_message

from parley.cli.console import paced
from parley.cli.main import main
from parley.coordinator.record import open_storage
from parley.coordinator.studies import acts
from parley.errors import BrokenChain, Conflict, InvalidInput, Rejected, Unreachable
from parley.protocol.acts import Given
from parley.text.formatting import estimate_text

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
STUDY = str(ROOT / "examples" / "two-by-two.toml")


def run(*arguments, **variables):
    """A command in this process; its output, or its exception."""
    result = CliRunner(env=variables).invoke(main, arguments, standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture
def served(tmp_path, monkeypatch):
    """An initialised database, its coordinator, and the administrator's token in the environment."""
    for name in ("PARLEY_DB", "PARLEY_SERVER", "PARLEY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    db = str(tmp_path / "parley.db")
    out = run("admin", "init", "--db", db, "--token-file", str(tmp_path / "root.token"))
    assert "from nothing to revision 0001" in out
    assert (tmp_path / "root.token").stat().st_mode & 0o777 == 0o600
    token = (tmp_path / "root.token").read_text().strip()
    assert token not in out
    storage = open_storage(db)
    house = House(storage, admin=token)
    monkeypatch.setenv("PARLEY_SERVER", house.url)
    monkeypatch.setenv("PARLEY_TOKEN", token)
    house.db = db
    yield house
    house.close()
    storage.close()


def test_what_compose_runs_at_every_start_upgrades_the_schema_and_keeps_the_token(tmp_path):
    """It looked for the token's file first, so that a newer version found the old schema."""
    command = re.search(r"command: (\[.*\])", (ROOT / "compose.yaml").read_text(encoding="utf-8"))[1]
    words = [word.replace("/data", str(tmp_path)) for word in json.loads(command)]
    said = [run(*words, PARLEY_DB=str(tmp_path / "parley.db")) for _ in range(2)]
    assert "from nothing to revision" in said[0]
    token = (tmp_path / "root.token").read_text()
    assert "is at revision" in said[1]
    assert "has tokens already" in said[1]
    assert (tmp_path / "root.token").read_text() == token


def agents_of(served, tmp_path, study, names, source=f"simulate:{STUDY}"):
    """Agent processes, one each, run to their end."""
    processes = [
        subprocess.Popen(
            [
                sys.executable, "-m", "parley", "agent", "--server", served.url, "--study", study,
                "--token-file", str(tmp_path / "tokens" / f"{study}-agent-{place}.token"),
                "--source", source, "--outbox", str(tmp_path / "outbox"),
            ],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for place, _ in enumerate(names, start=1)
    ]  # fmt: skip
    for process in processes:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
    return output


def answered_on_the_command_line():
    """As table, JSON and CSV, and as it was after the first phase."""
    found = json.loads(run("admin", "answer", "two", "--json"))
    assert found["end"] == "decided"
    assert [len(entry["arms"]) for entry in found["agents"]] == [1] * len(found["agents"])
    assert all(entry["leader"] in entry["arms"] and entry["estimates"]["arms"] for entry in found["agents"])
    said = run("admin", "answer", "two")
    assert {"decided", "chosen", "Estimates"} < set(said.split())
    assert estimate_text(found["agents"][0]["estimates"]["arms"][0]["mean"]).split()[0] in said
    assert " ".join(found["change"]["words"].split()) in " ".join(said.split()), "whether differences change"
    rows = list(csv.DictReader(io.StringIO(run("admin", "answer", "two", "--csv"))))
    arms = found["agents"][1]["estimates"]["arms"]
    assert [float(row["mean_low"]) for row in rows[-len(arms) :]] == [arm["mean"]["low"] for arm in arms]
    assert json.loads(run("admin", "answer", "two", "--phase", "1", "--json"))["end"] == "open"
    with pytest.raises(InvalidInput, match="--csv"):
        run("admin", "answer", "two", "--csv", "--json")


@pytest.mark.usefixtures("served")
def test_a_budget_that_cannot_decide_is_said_when_the_study_is_created(tmp_path):
    file = tmp_path / "tight.toml"
    file.write_text("max_samples = 30\n" + Path(STUDY).read_text())
    warning, brace, rest = run("admin", "create-study", str(file), "--id", "tight", "--json").partition("{")
    made = json.loads(brace + rest)
    assert made["stage"] == "running", "said, not refused"
    assert "With max_samples = 30 this study is likely to end without all answers" in made["warning"]
    assert warning.strip() == f"Warning: {made['warning']}", "on standard error, which the runner shows first"


def test_a_study_from_its_file_to_its_verified_answer(served, tmp_path):
    made = json.loads(
        run("admin", "create-study", STUDY, "--id", "two", "--tokens", str(tmp_path / "tokens"), "--json")
    )
    assert made["stage"] == "running"
    assert "waits for agent 1" in run("admin", "status", "two")
    said = agents_of(served, tmp_path, "two", made["token_files"])
    assert "receipt" in said
    assert "the study two is finished" in said
    assert json.loads(run("admin", "status", "two", "--json"))["stage"] == "finished"
    assert "two" in run("admin", "status")
    answered_on_the_command_line()

    outbox = str(tmp_path / "outbox")
    assert "Sound." in run("verify", "two", "--db", served.db, "--receipts", outbox)
    assert json.loads(run("verify", "two", "--json"))["sound"], "from the server"
    exported = tmp_path / "two.ndjson"
    exported.write_text("\n".join(served.admin.export("two")))
    found = json.loads(run("verify", str(exported), "--receipts", outbox, "--json"))
    assert found["sound"]
    assert found["receipts"] == 2 * found["phases"]
    renamed = exported.rename(tmp_path / "as the auditor likes.txt")
    assert json.loads(run("verify", str(renamed), "--receipts", outbox, "--json"))["receipts"] == found["receipts"]
    held = next((tmp_path / "outbox").rglob("receipts/1.json")).read_text()
    (tmp_path / "held").write_text(held + "\n" + held.replace('"study":"two"', '"study":"three"') + "\n")
    assert json.loads(run("verify", str(renamed), "--receipts", str(tmp_path / "held"), "--json"))["receipts"] == 1
    (tmp_path / "held").write_text(held.replace('"study":"two"', '"study":"three"'))
    with pytest.raises(InvalidInput, match=r"no receipt of the study 'two' in .*, only of three"):
        run("verify", str(renamed), "--receipts", outbox, "--receipts", str(tmp_path / "held"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no receipt of the study 'two'"):
        run("verify", "two", "--db", served.db, "--receipts", str(tmp_path / "empty"))
    renamed.rename(exported)
    lines = exported.read_text().splitlines()
    exported.write_text("\n".join(lines[:3]))
    with pytest.raises(BrokenChain, match="ends before it"):
        run("verify", str(exported), "--receipts", outbox)

    copy = str(tmp_path / "copy.db")
    assert "rows in" in run("admin", "backup", copy, "--db", served.db)
    assert "Sound." in run("verify", "two", "--db", copy)
    other = str(tmp_path / "other.db")
    said = run("admin", "restore", copy, "--db", other)
    assert "Revoke those that had been revoked after the backup" in said
    assert "agent:two/agent 1" in said
    assert "Sound." in run("verify", "two", "--db", other)
    with pytest.raises(InvalidInput, match="empty database"):
        run("admin", "restore", copy, "--db", other)
    with pytest.raises(InvalidInput, match="new file"):
        run("admin", "backup", copy, "--db", served.db)


def test_an_agent_with_a_new_outbox_goes_on_behind_the_rows_it_reported(served, tmp_path):
    """The outbox was lost after the first phase: no row of the file is reported twice."""
    agent, other = served.create(study_message(agents=2, arms=2, policy="uniform"))
    rows = [f"{arm},{place / 2**20}" for arm in agent.plan("trial", "agent 1").arms for place in range(5000)]
    file = tmp_path / "rewards.csv"
    file.write_text("\n".join(["arm,reward", *rows, ""]))
    token = tmp_path / "agent.token"
    token.write_text(served.tokens["trial", "agent 1"])

    def sent(phase, outbox):
        """The agent's report of a phase; the process that made it is stopped."""
        arguments = ["agent", "--server", served.url, "--study", "trial", "--token-file", str(token)]
        arguments += ["--source", f"csv:{file}", "--outbox", str(tmp_path / outbox)]
        process = subprocess.Popen([sys.executable, "-m", "parley", *arguments], stdout=subprocess.DEVNULL)
        while (report := agent.report("trial", phase, "agent 1")) is None:
            assert process.poll() is None
            time.sleep(0.02)
        process.terminate()
        process.wait()
        return report

    first = sent(1, "outbox")
    other.send(report_of(other.plan("trial", "agent 2"), 1))
    again = sent(2, "another outbox")
    assert served.admin.status("trial")["phase"] == 2
    for before, count, total in zip(first.counts, again.counts, again.sums, strict=True):
        assert total == sum(range(before, before + count)) / 2**20
    run("admin", "cancel", "trial", "--reason", "seen enough")  # or the server would serve the waits of the stopped


def test_a_study_of_more_agents_than_requests_at_once_gets_all_its_tokens(served, tmp_path):
    slow = House(served.storage, admin=served.token, rate=20, burst=4)
    study = tmp_path / "many.toml"
    study.write_text("name = 'many'\narms = 2\nagents = 12\n[weights]\nkind = 'personalized'\nalpha = 0.5\n")
    folder = tmp_path / "tokens"
    arguments = ("admin", "create-study", str(study), "--tokens", str(folder), "--server", slow.url, "--json")
    try:
        files = json.loads(run(*arguments))["token_files"]
    finally:
        slow.close()
    assert len(files) == 12
    assert len({Path(file).read_text() for file in files.values()}) == 12


def test_only_too_fast_is_asked_again():
    """After other trouble it is not known whether a token was issued."""
    trouble = Unreachable("busy", {"type": "urn:parley:problem:storage-unavailable"})
    calls = []

    def call():
        calls.append(1)
        raise trouble

    with pytest.raises(Unreachable):
        paced(call)
    assert len(calls) == 1


def test_a_study_is_signed_with_the_token_typed_again_and_verify_names_who_signed(served):
    served.create(study_message(agents=2, arms=2, policy="uniform"))
    words = ["admin", "sign", "trial", "--name", "Ada Example", "--meaning", "approved the protocol"]
    wrong = CliRunner().invoke(main, words, input="x\n", standalone_mode=False)
    assert "not the token with which you signed in" in str(wrong.exception)
    done = CliRunner().invoke(main, words, input=f"{served.token}\n", standalone_mode=False)
    assert "Signed, with Ada Example as the typed name: approved the protocol." in done.output
    assert served.token not in done.output
    said = " ".join(run("verify", "trial", "--db", served.db).split())
    assert (
        "1 signature, each of all records before its own: Signed: administrator:root, 'approved the protocol'" in said
    )
    assert "name as typed: Ada Example" in said
    assert "Read: " not in said
    said = " ".join(run("verify", "trial", "--server", served.url).split())
    assert "Read: administrator:root saw results while the study went on, in phase 1 (export_log, 2" in said
    told = json.loads(run("verify", "trial", "--db", served.db, "--json"))
    assert [(one["name"], one["sequence"]) for one in told["signatures"]] == [("Ada Example", 2)]
    assert [(one["operation"], one["sequence"]) for one in told["reads"]] == [("export_log", 3)]


def test_a_report_that_is_held_is_shown_refused_and_taken(served):
    agents = served.create(study_message(agents=2, arms=2, policy="uniform"))
    report = report_of(agents[0].plan("trial", "agent 1"), 0).to_json()
    report["sums"][0], report["squares"][0] = 1.7e12, 1.7e24
    for by in (1, 2):
        body = report | {
            "sums": [by * value for value in report["sums"]],
            "squares": [4 * v for v in report["squares"]],
        }
        with pytest.raises(Unreachable, match="is waiting for an administrator"):
            agents[0].request("PUT", "studies", "trial", "phases", 1, "reports", "agent 1", json=body)
        assert "its report is held: the mean" in " ".join(run("admin", "status", "trial").split())
        if by == 1:
            assert "Refused: agent 1 is told." in run("admin", "refuse", "trial", "agent 1", "--reason", "a slip")
    assert "Taken" in run("admin", "take", "trial", "agent 1", "--reason", "so it was")
    with pytest.raises(InvalidInput, match="none is"):
        run("admin", "take", "trial", "agent 1", "--reason", "again")
    assert "held" not in run("admin", "status", "trial")


def test_tokens_freeze_amend_pause_and_cancel(served, tmp_path):
    message = study_message(agents=2, arms=2, policy="uniform")
    agents = served.create(message)
    out = run("admin", "issue-token", "--role", "viewer", "--name", "eve", "--study", "trial")
    token = out.split()[-1]
    assert token.startswith("parley_")
    assert "viewer:eve" in run("admin", "tokens")
    assert "Revoked" in run("admin", "revoke", token.split("_")[1])

    report = report_of(agents[0].plan("trial", "agent 1"), 0)
    agents[0].send(report)
    document = report.to_json() | {"squares": [value + 1 for value in report.squares]}
    (tmp_path / "report.json").write_text(json.dumps(document))
    amend = ("admin", "amend", "trial", "agent 1", str(tmp_path / "report.json"), "--reason", "a typing error")
    assert "Amended" in run(*amend)
    kept = served.admin.request("GET", "studies", "trial", "phases", 1, "reports", "agent 1")
    assert kept["revision"] == 1
    assert len(kept["earlier"]) == 1
    assert agents[0].send(report).report == report.digest, "the agent's own report still has its first receipt"

    assert "paused" in run("admin", "pause", "trial", "--reason", "holiday")
    with pytest.raises(Conflict, match="cannot happen"):
        run("admin", "pause", "trial", "--reason", "again")
    assert "running" in run("admin", "resume", "trial", "--reason", "back")

    out = run("admin", "freeze", "trial", "agent 2", "--reason", "closed down", "--yes")
    assert "Termination: the study cannot finish" in out
    assert "Frozen." in out
    assert "frozen: agent 2" in run("admin", "status", "trial")
    assert "cancelled" in run("admin", "cancel", "trial", "--reason", "no way on")
    assert not served.admin.request("GET", "studies", "trial", "certificate")["complete"]
    assert "Sound." in run("verify", "trial", "--db", served.db)


def test_a_report_of_a_decided_phase_is_corrected_by_arm_by_table_and_by_file(served, tmp_path):
    message = study_message(agents=2, arms=2, policy="evidence")
    agents = served.create(message)
    for place, name in enumerate(message.agents):
        agents[place].send(report_of(agents[place].plan("trial", name), place))
    report = agents[0].report("trial", 1, "agent 1")
    correct = ("admin", "correct", "trial", "--agent", "agent 1", "--phase", "1", "--reason", "the wrong line", "--yes")
    one = ("--arm", "arm 2", "--sum", str(report.sums[1] + 1), "--squares", str(report.squares[1] + 2))
    out = " ".join(run(*correct, *one).split())
    assert f"arm 2: {report.counts[1]} draws with the sum" in out
    assert "no answer would change" in out
    assert "Corrected. trial is running in phase 2." in out
    told = served.admin.request("GET", "studies", "trial", "phases", 1, "reports", "agent 1")
    assert told["report"] == report.to_json()
    assert told["corrections"][0]["report"]["sums"] == [report.sums[0], report.sums[1] + 1]
    table = tmp_path / "new.csv"
    table.write_text(f"Arm;Count;Sum;Squares\narm 1;{report.counts[0]};{report.sums[0] + 2};{report.squares[0] + 9}\n")
    run(*correct, "--file", str(table))
    last = served.admin.request("GET", "studies", "trial", "phases", 1, "reports", "agent 1")["corrections"][-1]
    assert last["report"]["sums"] == [report.sums[0] + 2, report.sums[1] + 1], "the arm that was mended before stays so"
    (tmp_path / "whole.json").write_text(report.text)
    run(*correct, "--file", str(tmp_path / "whole.json"))
    for wrong, words in (
        (one[:2], "--sum: found nothing"),
        (one[:4], "squares: found none"),
        (("--arm", "arm 9", "--sum", "1"), "--arm: found arm 9; allowed: arm 1, arm 2"),
        (("--file", str(tmp_path / "whole.json"), "--phase", "2"), "agent 1 of trial in phase 1"),
    ):
        with pytest.raises(InvalidInput, match=words):
            run(*correct, *wrong)
    with pytest.raises(Conflict, match="nothing to correct"):
        run(*correct, "--file", str(tmp_path / "whole.json"))
    with pytest.raises(Rejected, match="Others are taken with a `reason`"):
        run(*correct, *one, "--count", str(report.counts[1] - 1))
    run(*correct, *one, "--count", str(report.counts[1] - 1), "--counts-reason", "missing-outcomes")
    checked = run("verify", "trial", "--db", served.db)
    assert "Sound." in checked
    assert "Corrected: the report of 'agent 1' in phase 1 was decided on as it was sent" in " ".join(checked.split())
    assert len(json.loads(run("verify", "trial", "--db", served.db, "--json"))["corrected"]) == 4


def test_a_freeze_is_confirmed_after_its_consequences_were_shown(served):
    served.create(study_message(agents=2, arms=2))
    refused = CliRunner().invoke(main, ["admin", "freeze", "trial", "agent 1", "--reason", "x"], input="n\n")
    assert "Guarantee:" in refused.output
    assert refused.output.endswith("Nothing was done.\n")
    assert refused.exit_code == 1
    assert served.admin.status("trial")["frozen"] == []


FREEZE = ["admin", "freeze", "trial", "agent 3", "--reason", "closed", "--reweigh"]


def test_a_freeze_that_re_weighs_as_it_was_shown_is_confirmed_once(served):
    served.create(study_message(agents=3, arms=2, policy="evidence"))
    done = CliRunner().invoke(main, FREEZE, input="y\n")
    assert done.exit_code == 0, done.output
    before, after = done.output.split("Freeze agent 3? And re-weigh the others? [y/N]")
    assert "agent 1 would weigh 0.8, 0.2, 0 (now 0.667, 0.167, 0.167)" in before
    assert "Frozen and re-weighed." in after
    assert "Re-weigh trial?" not in after


def test_a_freeze_does_not_re_weigh_otherwise_than_it_was_shown(served, monkeypatch):
    """The study may have moved between the preview of the freeze and the re-weighing: the server says what it did."""
    served.create(study_message(agents=3, arms=2, policy="evidence"))
    real, other = acts.propose, {"agent 1": [1.0, 0.0, 0.0]}

    def propose(storage, act, given):
        return real(storage, act, Given(**vars(given) | {"columns": other}))

    monkeypatch.setattr(acts, "propose", propose)
    refused = CliRunner().invoke(main, FREEZE, input="y\n")
    assert "agent 3 is frozen. The others are not re-weighed" in str(refused.exception)
    assert refused.exit_code != 0
    found = served.admin.status("trial")
    assert [entry["agent"] for entry in found["frozen"]] == ["agent 3"]
    assert found["reweighed"] is None


def test_a_site_is_lost_the_others_are_re_weighed_and_it_returns(served):
    served.create(study_message(agents=3, arms=2, policy="evidence"))
    out = run("admin", "freeze", "trial", "agent 3", "--reason", "closed", "--reweigh", "--yes")
    assert "Keep the question: agent 1, agent 2, agent 3 would not get an answer" in out
    assert "agent 1 would weigh 0.8, 0.2, 0 (now 0.667, 0.167, 0.167)" in out
    assert "Frozen and re-weighed." in out
    assert "re-weighed in phase 1, agent 3 left: closed" in run("admin", "status", "trial")
    out = run("admin", "thaw", "trial", "agent 3", "--reason", "open again", "--yes")
    assert "phase 1 waits for it again" in out
    refused = CliRunner().invoke(main, ["admin", "reweigh", "trial", "--reason", "open again"], input="n\n")
    assert "Effect: 2 of 3 agents ask a different question" in refused.output
    assert refused.exit_code == 1
    alone = ("--column", "agent 1", "1,0,0", "--column", "agent 2", "0,1,0", "--column", "agent 3", "0,0,1")
    assert "Re-weighed." in run("admin", "reweigh", "trial", "--reason", "each alone", *alone, "--yes")
    assert served.admin.request("GET", "studies", "trial", "document")["weights"] == np.eye(3).tolist()
    with pytest.raises(InvalidInput, match="numbers, as in"):
        run("admin", "reweigh", "trial", "--reason", "x", "--column", "agent 1", "one", "--yes")
    assert "Sound." in run("verify", "trial", "--db", served.db)


def test_an_arm_is_opened_and_another_withdrawn_once_it_was_shown(served):
    served.create(study_message(agents=3, arms=4, policy="evidence", dormant=("arm 4",)))
    assert "not drawn: arm 4 (open-arm)" in run("admin", "status", "trial")
    refused = CliRunner().invoke(main, ["admin", "open-arm", "trial", "arm 4", "--reason", "ready"], input="n\n")
    assert refused.exit_code == 1
    for words in ("Effect: arm 4 is a candidate", "Guarantee: ", "Open arm 4? [y/N]", "known about the cost"):
        assert words in refused.output
    assert "0 samples" not in refused.output
    assert served.admin.status("trial")["changed_arms"] == []
    assert "Opened. trial is running in phase 1." in run(
        "admin", "open-arm", "trial", "arm 4", "--reason", "it came", "--yes"
    )
    out = run("admin", "withdraw-arm", "trial", "arm 1", "--reason", "unsafe", "--yes")
    assert "the new question may spend an error probability of" in out
    assert "Withdrawn." in out
    out = run("admin", "status", "trial")
    assert "withdrawn: arm 1 in phase 1: unsafe" in out
    assert "opened: arm 4 in phase 1: it came" in out
    assert "Sound." in run("verify", "trial", "--db", served.db)


def test_initialising_again_issues_no_second_secret(tmp_path):
    db = str(tmp_path / "parley.db")
    assert "Token" in run("admin", "init", "--db", db)
    assert "parley_" not in run("admin", "init", "--db", db)
    assert "parley_" in run("admin", "init", "--db", db, "--new-token")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--db", "none.db"], "parley admin init"),
        (["serve", "--host", "0.0.0.0"], "--plain-http"),
        (["serve", "--port", "99999"], "port"),
        (["serve", "--tls-cert", "none.pem"], "tls_cert"),
        (["serve", "--db", "mysql://x/y"], "postgresql://"),
        (["verify", "nothing"], "exported log"),
        (["agent", "--study", "s", "--source", "nonsense", "--server", "localhost"], "token"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments, words, monkeypatch):
    for name in ("PARLEY_DB", "PARLEY_SERVER", "PARLEY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InvalidInput) as told:
        run(*arguments)
    assert words in str(told.value)


def test_serve_answers_and_stops_when_told(tmp_path):
    db = str(tmp_path / "parley.db")
    run("admin", "init", "--db", db)
    with server_process(db, PARLEY_LOG_LEVEL="info") as (process, address):
        import httpx2

        for path in ("/healthz", "/readyz", "/metrics"):
            for _ in range(100):
                try:
                    answer = httpx2.get(address + path, trust_env=False)
                    break
                except httpx2.TransportError:
                    process.poll()
            assert answer.status_code == 200
        assert "parley_requests_total" in answer.text
        process.terminate()
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert lines[0]["event"] == "started"
    assert lines[-1]["event"] == "stopped"
    assert any(line.get("operation") == "readyz" for line in lines)


def test_the_live_demo_decides_like_the_simulator():
    from parley.cli.demo import run_live
    from parley.policies import make_policy
    from parley.simulation import phases
    from parley.study import load_study

    said = []
    result = run_live(STUDY, seed=5, notify=said.append)
    study = load_study(STUDY)
    last = list(phases(make_policy(study.policy, study.problem), study.instance, seed=5))[-1]
    assert result["dropped_in"] == last.after.dropped_in.tolist()
    assert result["samples"] == int(last.after.counts.sum())
    assert result["correct"]
    assert result["verification"]["sound"]
    assert any("ruled out" in line for line in said)


TIED = """
arms = ["a", "b", "c"]
agents = 2
tolerance = 0.4
largest_gap = 6.0
[truth]
means = [[0.5, 0.5], [0.51, 0.49], [-3.0, -3.0]]
"""


@contextmanager
def closing_by_force(process):
    """Nothing waits for a process that a failed test leaves behind."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()


def test_the_live_demo_stays_open_until_it_is_interrupted_and_judges_by_the_tolerance(tmp_path):
    file = tmp_path / "tied.toml"
    file.write_text(TIED)
    arguments = ["demo", "--live", "--keep-open", "--study", str(file), "--seed", "2"]
    # A job in the background of a script ignores SIGINT, and so would what it starts.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{heard}; from parley.cli.main import run; run()"
    with (
        subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, text=True) as process,
        closing_by_force(process),
    ):
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if line.startswith("The dashboard stays open"):
                break
        whole = "\n".join(said)
        address, study = re.search(r"dashboard: (http://127\.0\.0\.1:\d+)/studies/(\S+)", whole).groups()
        token = re.search(r"with this token: (\S+)", whole).group(1)
        with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}) as client:
            assert client.get(f"/v1/studies/{study}").json()["stage"] == "finished"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    assert "Every agent has its answer, and all are within 0.4 of the best." in whole
    with httpx2.Client(base_url=address) as client, pytest.raises(httpx2.TransportError):
        client.get("/healthz")


def test_a_live_demo_without_the_server_says_which_extra_it_needs():
    without = "import sys; sys.modules['sqlalchemy'] = None; from parley.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", without, "demo", "--live"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "parley demo --live: found no package sqlalchemy" in done.stderr
    assert "'.[server]'" in done.stderr


GUARDED = """
arms = ["control", "A", "B"]
agents = 2
tolerance = 0.1
control = "control"
[weights]
kind = "personalized"
alpha = 0.5
[noise]
kind = "binary"
inference = "normal"
[truth]
means = [[0.3, 0.3], [0.3, 0.35], [0.55, 0.5]]
[truth.outcomes]
bleeding = [[0.05, 0.05], [0.05, 0.05], [0.9, 0.9]]
[[outcomes]]
name = "bleeding"
kind = "binary"
role = "guardrail"
better = "lower"
margin = 0.05
delta = 0.05
"""


def test_simulated_agents_try_a_study_with_a_guardrail_and_the_answer_names_the_stopped_arm(served, tmp_path):
    file = tmp_path / "guarded.toml"
    file.write_text(GUARDED)
    made = json.loads(
        run("admin", "create-study", str(file), "--id", "guarded", "--tokens", str(tmp_path / "tokens"), "--json")
    )
    agents_of(served, tmp_path, "guarded", made["token_files"], source=f"simulate:{file}")
    found = json.loads(run("admin", "answer", "guarded", "--json"))
    (bleeding,) = found["outcomes"]
    assert {row["arm"]: row["status"] for row in bleeding["arms"]}["B"] == "stopped"
    assert not any("B" in entry["arms"] for entry in found["agents"])
    said = run("admin", "answer", "guarded")
    assert {"Guardrails", "stopped"} < set(said.split())
    assert "A stopped arm cannot be an answer, however good it is" in " ".join(said.split())
    assert "Sound." in run("verify", "guarded")
