"""The checks of `parley qualify` that use real servers: killed servers, and access rights.

Access rights are compared with the table of docs/api.md, which `promises.json` contains: the expectations never come
from the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, closing

import numpy as np

from parley.cli.demo import administrator, serving
from parley.edges.qualification.checks import Bench, Flaw, check, require, stored
from parley.errors import Unreachable
from parley.protocol import Receipt, StudyMessage, Verification
from parley.study import parse_study
from parley.testing.access import ROLES, access_mistakes, call
from parley.text.formatting import plural
from parley.totals import Totals

# Points at which servers die, one after another: in a report's transaction, after computing a step, around a commit.
DEATHS = ("report-looked-up", "report-inserted", "step-computed", "before-commit", "after-commit")
PATIENCE = 60  # rounds, and starts of the server, within which a study of two agents must end


def _serving(bench: Bench, database: str, **variables: str) -> AbstractContextManager[str]:
    """Start a real server process, without rate limits; yields its address."""
    quick = {"PARLEY_RATE": "1000000", "PARLEY_BURST": "1000000", "PARLEY_LOG_LEVEL": "error"}
    return serving(database, bench.folder / "server.log", **quick, **variables)


def _small_study() -> StudyMessage:
    weights = {"kind": "matrix", "matrix": [[0.8, 0.3], [0.2, 0.7]]}
    study = {"arms": 2, "agents": 2, "weights": weights, "noise": {"scale": 1.0}, "policy": {"name": "wcpe"}}
    return StudyMessage.of(parse_study(study, default_name="qualification"))


LIVE = ("server", "agent")  # extras that these checks need


@check(
    "kills, SQLite",
    "a server that is killed loses no acknowledged report and accepts none twice",
    "promise 1",
    "promise 2",
    extras=LIVE,
)
def kills_sqlite(bench: Bench) -> str:
    """Check that killed servers lose no report and accept none twice, on an SQLite file that is removed afterwards."""
    return _kills(bench, str(bench.folder / "kills.db"))


@check("kills, PostgreSQL", "the same on PostgreSQL", "promise 2", "promise 1", "promise 4", extras=LIVE, postgres=True)
def kills_postgres(bench: Bench) -> str:
    """Check that killed servers lose no report and accept none twice, on the user's empty PostgreSQL database."""
    return _kills(bench, str(bench.database))


def _kills(bench: Bench, database: str) -> str:
    """Run studies while their server dies at one point after another; agents resend until they get an answer."""
    token, deaths = administrator(database, "qualification"), [*DEATHS] * max(int(bench.minutes), 1)
    planned, studies, acknowledged = len(deaths), 0, 0
    while deaths:
        before = len(deaths)
        acknowledged += _study_with_deaths(bench, database, token, f"study-{studies}", deaths)
        require(len(deaths) < before, f"no server reached {deaths[:1]}")
        studies += 1
    done = f"{acknowledged} reports acknowledged, none lost, none twice"
    return f"killed {planned} times ({', '.join(DEATHS)}) in {plural(studies, 'study', 'studies')}: {done}"


def _study_with_deaths(bench: Bench, database: str, token: str, study: str, deaths: list[str]) -> int:
    """Run one study to its end; returns the number of acknowledged reports.

    Removes from `deaths` each point at which a server died.
    """
    from parley.agent.client import Client

    message, received = _small_study(), list[Receipt]()
    with _serving(bench, database) as address, Client(address, token) as root:
        root.request("POST", "studies", json={"id": study, "study": message.to_json()})
        body = {"role": "agent", "study": study}
        tokens = {
            agent: root.request("POST", "tokens", json=body | {"agent": agent})["token"] for agent in message.agents
        }
    for _ in range(PATIENCE):
        with _serving(bench, database, PARLEY_KILL_AT=deaths[0] if deaths else "") as address:
            try:
                _take_part(address, study, tokens, received)
                break
            except Unreachable:  # this server died; the next server continues the study
                deaths.pop(0)
    else:
        raise Flaw(f"{study} is not over after {PATIENCE} starts of its server")
    found = _stored_study(database, study, received)
    require(found.sound and found.stage == "finished", f"{study} is {found.stage} and not sound: {found.problem}")
    return len(received)


def _stored_study(database: str, study: str, received: list[Receipt]) -> Verification:
    """Verify a study's log and tables against all receipts; a log that accepts a report twice is not sound."""
    from parley.coordinator.record import open_for_reading
    from parley.coordinator.record.audit import verify_stored

    with closing(open_for_reading(database)) as storage:
        found = verify_stored(storage, study, received)
    if found is None:
        raise Flaw(f"{study} is not in the database any more")
    return found


def _take_part(address: str, study: str, tokens: Mapping[str, str], received: list[Receipt]) -> None:
    """Answer every plan of every agent with random rewards until the study is over; collects receipts in `received`."""
    from parley.agent.client import Client

    with ExitStack() as stack:
        agents = {agent: stack.enter_context(Client(address, token)) for agent, token in tokens.items()}
        for _ in range(PATIENCE):
            for place, (agent, client) in enumerate(agents.items()):
                plan = client.plan(study, agent)
                if plan.due:
                    # Seeded by agent and phase: after a crash, an agent must send the same report again.
                    generator = np.random.default_rng([place, plan.phase])
                    rewards = [generator.normal(1.0 - arm, 1.0, n).tolist() for arm, n in enumerate(plan.draws or ())]
                    received.append(client.send(plan.report(Totals.of(rewards))))
            if client.status(study)["stage"] == "finished":
                return
    raise Flaw(f"{study} is not over after {PATIENCE} rounds")


@check(
    "access",
    "nobody can do more than the table in docs/api.md allows, in any study",
    "promise 9",
    "access",
    extras=LIVE,
)
def access(bench: Bench) -> str:
    """Try every operation with every role, in the role's own study and in another study, for two different agents."""
    import httpx2

    from parley.agent.client import Client

    database, message = str(bench.folder / "access.db"), _small_study()
    tokens: dict[str | None, str] = {None: "", "administrator": administrator(database, "qualification")}
    with _serving(bench, database) as address, Client(address, tokens["administrator"]) as root:
        for study in ("mine", "other"):
            root.request("POST", "studies", json={"id": study, "study": message.to_json()})
        for role in ROLES[:-1]:
            who = {"agent": message.agents[0]} if role == "agent" else {"name": role}
            body = {"role": role, "study": "mine", **who}
            tokens[role] = root.request("POST", "tokens", json=body)["token"]
        document = root.request("GET", "openapi.json")
        with httpx2.Client(base_url=address, trust_env=False) as http:
            wrong, tried = access_mistakes(
                document, stored("promises.json")["access"], message.agents, lambda asked: call(http, tokens, asked)
            )
    require(not wrong, "; ".join(wrong[:5]))
    return f"{tried:,} requests, each allowed or denied as documented"
