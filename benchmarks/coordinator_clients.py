"""The agents of the coordinator's benchmark, as a separate process: `python -m benchmarks.coordinator_clients`.

Reads one JSON object (url, token, work and its sizes) and prints JSON lines: {"mark": reports so far} when the server's
memory should be read, and finally the measurements.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import numpy as np

from parley.agent.plans import AgentPlan
from parley.protocol import Report, StudyMessage
from parley.totals import Totals

T = TypeVar("T")
PHASES = 20  # phases of a study before the next begins: arms tie, so draws grow fourfold per phase


def mixed(agents: int, arms: int, policy: str) -> StudyMessage:
    """A study in which every agent has weight in every mix."""
    weights = np.full((agents, agents), 0.5 / agents) + 0.5 * np.eye(agents)
    return StudyMessage(
        name="benchmark",
        arms=tuple(f"arm {arm + 1}" for arm in range(arms)),
        agents=tuple(f"agent {agent + 1}" for agent in range(agents)),
        weights=tuple(map(tuple, weights.tolist())),
        policy=policy,
    )


def answer(plan: AgentPlan, means: Sequence[float]) -> Report:
    """A report in which every reward equals its arm's mean."""
    counts, mean = np.array(plan.draws or (), dtype=np.int64), np.array(means)
    return plan.report(Totals(counts=counts, sums=counts * mean, squares=counts * np.square(mean)))


class Agents:
    """The agents of a study on one pool of connections, each with its own token; only some work at the same time."""

    def __init__(self, url: str, token: str, at_once: int) -> None:
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)
        self._http = httpx2.AsyncClient(base_url=url, limits=limits, timeout=300, trust_env=False, verify=False)
        self._token, self._at_once = token, at_once
        self._tokens: dict[str, str] = {}
        self.latencies: list[float] = []

    async def close(self) -> None:
        await self._http.aclose()

    async def request(self, method: str, path: str, token: str | None = None, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": "application/json"}
        response = await self._http.request(method, f"/v1/{quote(path)}", headers=headers, **options)
        response.raise_for_status()
        return response.json()

    async def together(self, work: Callable[[str], Awaitable[T]], names: Iterable[str]) -> list[T]:
        """Do the work for every agent, for `at_once` of them at a time."""
        left, done = iter(names), []

        async def one() -> None:
            for name in left:
                done.append(await work(name))

        await asyncio.gather(*(one() for _ in range(self._at_once)))
        return done

    async def create(self, study: str, message: StudyMessage) -> float:
        """Create a study and its tokens; returns the seconds for the study alone."""
        body, begun = json.dumps({"id": study, "study": message.to_json()}), perf_counter()
        await self.request("POST", "studies", content=body)
        seconds = perf_counter() - begun

        async def issue(name: str) -> None:
            body = {"role": "agent", "study": study, "agent": name}
            self._tokens[name] = (await self.request("POST", "tokens", json=body))["token"]

        await self.together(issue, message.agents)
        return seconds

    async def plan(self, study: str, name: str, **query: float) -> AgentPlan:
        path = f"studies/{study}/agents/{name}/plan"
        return AgentPlan.from_json(await self.request("GET", path, self._tokens[name], params=query))

    async def plans(self, study: str, names: Iterable[str]) -> dict[str, AgentPlan]:
        found = await self.together(lambda name: self.plan(study, name), names)
        return {plan.agent: plan for plan in found}

    async def send(self, report: Report) -> None:
        path = f"studies/{report.study}/phases/{report.phase}/reports/{report.agent}"
        content, begun = report.text.encode(), perf_counter()
        await self.request("PUT", path, self._tokens[report.agent], content=content)
        self.latencies.append(perf_counter() - begun)

    async def send_all(self, reports: dict[str, Report]) -> float:
        begun = perf_counter()
        await self.together(lambda name: self.send(reports[name]), list(reports))
        return perf_counter() - begun


def mark(reports: int) -> None:
    print(json.dumps({"mark": reports}), flush=True)
    sys.stdin.readline()  # wait until the memory has been read


async def load(agents: Agents, *, members: int, arms: int, reports: int, marks: Sequence[int]) -> dict[str, float]:
    """Run one study after another until there were enough reports; arms tie, so that no study ends early."""
    message, study, sending, begun = mixed(members, arms, "uniform"), 0, 0.0, perf_counter()
    waiting, creating = sorted(marks), 0.0
    while len(agents.latencies) < reports:
        study += 1
        started = perf_counter()
        await agents.create(f"study-{study}", message)
        creating += perf_counter() - started
        for _ in range(PHASES):
            plans = await agents.plans(f"study-{study}", message.agents)
            answers = {name: answer(plan, [0.0] * arms) for name, plan in plans.items() if plan.due}
            sending += await agents.send_all(answers)
            while waiting and len(agents.latencies) >= waiting[0]:
                mark(waiting.pop(0))
            if len(agents.latencies) >= reports:
                break
    taken = len(agents.latencies)
    fifty, ninety_nine = np.quantile(agents.latencies, [0.5, 0.99])
    return {
        "reports": taken,
        "rate": taken / sending,
        "whole_rate": taken / (perf_counter() - begun - creating),
        "p50": float(fifty),
        "p99": float(ninety_nine),
        "slowest": max(agents.latencies),
    }


async def phase(agents: Agents, *, members: int, arms: int, policy: str) -> dict[str, float]:
    """One phase of a large study: the response time of its last report, and the time until all have the next plan."""
    message, study = mixed(members, arms, policy), f"large-{policy}"
    creation = await agents.create(study, message)
    means = np.linspace(0.9, 0.0, arms).tolist()
    plans = await agents.plans(study, message.agents)
    answers = {name: answer(plan, means) for name, plan in plans.items()}
    last = answers.pop(message.agents[-1])
    sending = await agents.send_all(answers)
    begun = perf_counter()
    await agents.send(last)
    acknowledged = perf_counter() - begun
    plan = await agents.plan(study, last.agent, after=1, wait=60)
    while plan.phase < 2 and not plan.over:
        plan = await agents.plan(study, last.agent, after=1, wait=60)
    await agents.request("GET", f"studies/{study}/phases/1/decision")
    return {
        "creation": creation,
        "sending": sending,
        "acknowledged": acknowledged,
        "planned": perf_counter() - begun,
        "phase": plan.phase,
    }


async def main() -> None:
    order = json.loads(sys.stdin.readline())
    agents = Agents(order.pop("url"), order.pop("token"), order.pop("at_once"))
    work: Callable[..., Awaitable[dict[str, float]]] = {"load": load, "phase": phase}[order.pop("work")]
    try:
        print(json.dumps(await work(agents, **order)), flush=True)
    finally:
        await agents.close()


if __name__ == "__main__":
    asyncio.run(main())
