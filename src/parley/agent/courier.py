"""Between a site's journal and the coordinator: a `Worker` whose source is the site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parley.agent.client import Client
from parley.agent.entries import RulesSeen
from parley.agent.outbox import Outbox
from parley.agent.plans import AgentPlan
from parley.agent.site import Site
from parley.agent.worker import Worker
from parley.protocol import StudyMessage

__all__ = ["hand_over", "make_worker", "rules_of", "site_of"]


def rules_of(study: StudyMessage) -> RulesSeen:
    """What a study says about its sites.

    >>> rules_of(StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")).low
    """
    problem = study.problem
    return RulesSeen(
        low=problem.noise.low,
        high=problem.noise.high,
        values=problem.noise.values,
        between=problem.between,
        flexible=study.flexible,
        minimum_cell=problem.minimum_cell,
    )


def site_of(folder: str | Path, client: Client, *, study: str, agent: str) -> Site:
    """The site of an agent, with the rules of its study as the coordinator has it."""
    message = StudyMessage.from_json(client.request("GET", "studies", study, "document"))
    return Site(folder, study=study, agent=agent, rules=rules_of(message))


class _Telling:
    """A coordinator that hears with every question how far the site is: people and outcomes, none of them by arm."""

    def __init__(self, site: Site, client: Client) -> None:
        self._site, self._client = site, client
        self.send = client.send

    def plan(self, study: str, agent: str, *, after: int = 0, wait: float = 0) -> AgentPlan:
        """What is asked."""
        found = self._site.status()
        far = {"during": found["phase"], "recruited": found["assigned"], "observed": found["observed"]}
        return self._client.plan(study, agent, after=after, wait=wait, **far)


def make_worker(
    site: Site,
    client: Client,
    outbox: Outbox,
    *,
    say: Callable[[str], None] = lambda _: None,
    warn: Callable[[str], None] | None = None,
    sleep: Callable[[float], None] = lambda _: None,
    patience: float = 0.0,
    heard: Callable[[AgentPlan], None] = lambda _: None,
) -> Worker:
    """What fetches the site's plans and hands its phases over; the site notes where the study is."""

    told = _Telling(site, client)

    def noted(plan: AgentPlan) -> None:
        site.seen("frozen" if plan.frozen else plan.stage, plan.reason)
        heard(plan)

    return Worker(told, outbox, site, say=say, warn=warn, sleep=sleep, patience=patience, heard=noted)


def hand_over(site: Site, client: Client, folder: str | Path, *, warn: Callable[[str], None] | None = None) -> None:
    """Once, without waiting: send what is ready and see what is asked. Raises `Unreachable` if nobody answers.

    Three rounds: what is complete is kept in the first, sent in the second, and the next plan comes in the third.
    """
    client.request("GET", "whoami")
    with Outbox(folder, study=site.study, agent=site.agent) as outbox:
        worker = make_worker(site, client, outbox, warn=warn)
        for _ in range(3):
            worker.step()
