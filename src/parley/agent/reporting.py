"""Connect a site's journal with its coordinator: fetch plans and send reports, once, or continuously in a thread."""

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from parley.agent.client import Client
from parley.agent.journal import RulesSeen
from parley.agent.outbox import Outbox, release
from parley.agent.outcomes import OutcomeRules
from parley.agent.plans import AgentPlan, Withheld
from parley.agent.privacy import Disclosure, SitePolicy
from parley.agent.site import Site
from parley.agent.worker import Coordinator, Worker
from parley.errors import Conflict, CoordinatorError, InvalidInput, NotNow, ParleyError, Unreachable
from parley.outcomes import Outcome
from parley.problem import Problem
from parley.protocol import Receipt, Report, StudyMessage
from parley.text.translation import Translatable


def rules_of(study: StudyMessage, agent: str = "") -> RulesSeen:
    """The rules of a study for its sites, with the values that apply to one agent.

    >>> rules_of(StudyMessage(name="s", arms=("a", "b"), agents=("x",), weights=((1.0,),), policy="uniform")).low
    """
    problem, place = study.problem, study.agents.index(agent) if agent in study.agents else 0
    rewards, rule = problem.noise.outcome or problem.noise, problem.adjustment
    clip: tuple[float, float] | None = getattr(rewards, "clip", None)
    adjusted: dict[str, Any] = {}
    if rule is not None:
        adjusted = {
            "covariate": rule.name,
            "covariate_range": rule.range,
            "covariate_center": rule.center,
            "covariate_theta": None if rule.theta is None else float(rule.theta[place]),
            "covariate_largest": rule.largest if math.isfinite(rule.largest) else None,
            "report_low": problem.noise.low,
            "report_high": problem.noise.high,
        }
    return RulesSeen(
        **adjusted,
        low=None if clip else rewards.low,
        high=None if clip else rewards.high,
        values=rewards.values,
        whole=rewards.whole,
        between=problem.between,
        flexible=study.flexible,
        minimum_cell=problem.minimum_cell,
        digest=study.digest,
        clip=clip,
        rho=problem.rho,
        grid=1.0 if problem.rho is None else problem.noise.grid,
        sensitivity=1 if problem.rho is None else problem.noise.sensitivity,
        audience=problem.audience,
        title=study.name,
        delay=float(problem.delay[study.agents.index(agent)]) if agent in study.agents else 0.0,
        grace_hours=grace_of(problem),
        contact=problem.contact,
        key_pattern=problem.key_pattern,
        kits=problem.kits,
        arms=study.arms if problem.kits else (),
        place=problem.site_of[place] if problem.site_of else "",
        stratum=problem.stratum_of[place] if problem.stratum_of else "",
        question=problem.outcome_question,
        words=problem.outcome_words,
        masked=problem.masked,
        eligibility=problem.eligibility,
        outcomes=tuple(map(_rules_of_outcome, problem.outcomes)),
    )


USUAL_GRACE = 24.0  # hours: long enough to notice a typing error the next morning


def grace_of(problem: Problem) -> float:
    """The grace period: hours from the last entry of a complete phase to its report.

    The default is 24 hours in a study that states a rate, since people then come one by one, and 0 in any other study.
    """
    if problem.grace_hours is not None:
        return problem.grace_hours
    return 0.0 if problem.rate is None else USUAL_GRACE


def _rules_of_outcome(outcome: Outcome) -> OutcomeRules:
    noise = outcome.noise
    clip: tuple[float, float] | None = getattr(noise, "clip", None)
    return OutcomeRules(
        name=outcome.name,
        question=outcome.question,
        answers=outcome.words,
        delay=outcome.delay,
        low=None if clip else noise.low,
        high=None if clip else noise.high,
        values=noise.values,
        whole=noise.whole,
        clip=clip,
        grid=1.0 if noise.rho is None else noise.grid,
        sensitivity=1 if noise.rho is None else noise.sensitivity,
    )


def study_of(client: Client, study: str, agent: str = "") -> RulesSeen:
    """Fetch the rules of a study from the coordinator."""
    return rules_of(StudyMessage.from_json(client.request("GET", "studies", study, "document")), agent)


def site_of(folder: str | Path, client: Client, *, study: str, agent: str, policy: SitePolicy | None = None) -> Site:
    """Open the site of an agent, with its study's rules from the coordinator."""
    return Site(folder, study=study, agent=agent, rules=study_of(client, study, agent), policy=policy)


def make_worker(
    site: Site,
    client: Coordinator,
    outbox: Outbox,
    *,
    heard: Callable[[AgentPlan], None] = lambda _: None,
    **options: Any,
) -> Worker:
    """Make a site's worker, which also sends the site's progress (no counts by arm) and records the study's stage."""

    def far() -> dict[str, int | str]:
        found = site.status()
        shown = {"unmasked": found["unmasked"]} if found["unmasked"] else {}
        return {"during": found["phase"], "recruited": found["assigned"], "observed": found["observed"], **shown}

    def noted(plan: AgentPlan) -> None:
        site.seen("frozen" if plan.frozen else plan.stage, plan.reason, plan.answer)
        site.close_arms(plan.closed_arms)
        heard(plan)

    disclosure = Disclosure(site.people.rules, site.policy)
    return Worker(client, outbox, site, far=far, heard=noted, disclosure=disclosure, **options)


def hand_over(site: Site, client: Client, folder: str | Path, *, warn: Callable[[str], None] | None = None) -> None:
    """Send the report of a complete phase and all corrections, and fetch the next plan, without waiting.

    This takes three rounds: the first stores the report of the complete phase, the second sends it, and the third
    fetches the next plan if the second came too early for it. Raises `Unreachable` if the coordinator does not answer.
    """
    # If the coordinator is unreachable, a worker would only wait; this request raises.
    client.request("GET", "whoami")
    with Outbox(folder, study=site.study, agent=site.agent) as outbox:
        worker = make_worker(site, client, outbox, warn=warn, sleep=lambda _: None, patience=0.0)
        for _ in range(3):
            worker.step()
        for words in hand_over_corrections(site, client, outbox).values():
            if warn is not None:
                warn(words)


SAME = Translatable("this value is already recorded, so there is nothing to correct")
CONFLICT = "urn:parley:problem:report-conflict"


def hand_over_corrections(site: Site, client: Client, outbox: Outbox) -> dict[int, str]:
    """Send the corrected report of every phase that has one, and record the administrator's decision about it.

    The request is the same PUT as for the first report. The coordinator quarantines a different report once, and
    answers repeated requests with the decision about it. So a call after a crash only repeats the request.
    Returns phase -> why its corrected report was not sent.
    """
    acknowledged = {receipt.phase for receipt in outbox.receipts()}
    problems: dict[int, str] = {}
    for phase, known in sorted(site.people.corrections.items()):
        if known.status not in ("unsent", "waiting") or phase not in acknowledged:
            continue  # the coordinator must have the first report before a corrected one
        try:
            _hand_over_correction(site, client, outbox, phase)
        except Unreachable:
            raise
        except (Withheld, CoordinatorError, NotNow, InvalidInput) as error:
            problems[phase] = str(error)
    return problems


def _hand_over_correction(site: Site, client: Client, outbox: Outbox, phase: int) -> None:
    earlier = outbox.report(phase)
    assert earlier is not None, "a report was acknowledged, but it is not in the outbox"
    now = site.corrected(phase)
    disclosure = Disclosure(site.people.rules, site.policy)
    report = disclosure.recounted(now.arms, earlier, now.rewards, outbox, now.outcomes, now.between)
    answer, reason, same = "waiting", "", report == earlier
    if not same:
        answer, reason = _sent(client, report, outbox)
        sys.audit("parley.reached", "correction-taken")
    # A repeated request about the same corrected report adds nothing to the journal.
    known = site.people.corrections[phase]
    if (known.sent, known.report) != (now.number, report.digest):
        site.correction_sent(phase, report=report.digest, number=now.number, same=same)
    if answer != "waiting":
        site.correction_answered(phase, report=report.digest, accepted=answer == "accepted", reason=reason)


def _sent(client: Client, report: Report, outbox: Outbox) -> tuple[str, str]:
    """Send a corrected report; returns the decision about it (`accepted`, `refused` or `waiting`) and its reason."""
    try:
        client.send(report, receipt=outbox.last_receipt())
        return "accepted", ""  # an administrator had already replaced the first report by this one, in the open phase
    except Conflict as error:
        if error.problem.get("type") != CONFLICT:
            raise
        if not error.problem.get("quarantined"):
            raise NotNow(f"{error}. Too many corrections of this phase are waiting: ask the administrator") from None
        return str(error.problem.get("answer", "waiting")), str(error.problem.get("reason", ""))


AGAIN = 15.0  # seconds to wait after a refusal by the coordinator
LOOK_AGAIN = 15.0  # seconds between two requests about corrections
LATE = 120.0  # seconds without an answer from the coordinator after which the page says so
PATIENCE = 5.0  # seconds: the longest wait for a plan, and so about the longest time that stopping takes


class SiteRuntime:
    """One stratum in the running service: its `Site`, and a thread that fetches its plans and sends its reports.

    `start` starts the thread; without it, the site works with its journal alone.
    """

    def __init__(self, site: Site, client: Client, folder: str | Path) -> None:
        self.site, self._client, self._folder = site, client, folder
        self._outbox = Outbox(folder, study=site.study, agent=site.agent)
        self._something = threading.Event()  # something was entered: check at once whether a report is due
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True, name="reporting")
        self.words, self._heard = "not connected yet", False
        self._contact: float | None = None  # when the coordinator last answered
        self._looked = 0.0  # when the coordinator was last asked about corrections
        self.unsent: dict[int, str] = {}  # phase -> why its corrected report cannot be sent
        self._warning = ""  # shown until a report of this site is acknowledged

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._something.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2 * PATIENCE)
        self._outbox.close()
        self.site.close()

    def noted(self) -> None:
        """Wake the thread after an entry, if a report is due."""
        if self.site.due:
            self._something.set()

    @property
    def silence(self) -> float | None:
        return None if self._contact is None else time.monotonic() - self._contact

    def receipts(self) -> dict[int, Receipt]:
        return {receipt.phase: receipt for receipt in self._outbox.receipts()}

    @property
    def held(self) -> Report | None:
        """The report that a person at the site must release, as it would be sent; None if there is none."""
        pending = self._outbox.pending() if self.site.policy.hold else None
        return None if pending is None or self._outbox.is_released(pending) else pending

    def send(self, phase: int) -> None:
        """Report a complete phase now, without waiting for the grace period."""
        self.site.send(phase)
        self._something.set()

    def correct(self, outcomes: Sequence[tuple[str, float | None, str]], *, reason: str, who: str) -> int:
        """Correct outcomes of a reported phase, and wake the thread to send the corrected report. Returns the phase."""
        before = dict(self.site.people.corrections)
        if not outcomes:
            raise NotNow(SAME)
        known = self.site.people.persons.get(outcomes[0][0])
        if (
            known is not None
            and self.site.people.book_of(known).reported
            and not self.correctable(self.site.people.reported_in(known))
        ):
            raise NotNow(Translatable("the study went on without this report, so there is nothing to correct"))
        phase = self.site.correct(outcomes, reason=reason, who=who)
        if before.get(phase) == self.site.people.corrections.get(phase):
            raise NotNow(SAME)
        # Send the corrected report in the thread's next round, however recently the thread asked about corrections.
        self._looked = 0.0
        self._something.set()
        return phase

    def correctable(self, phase: int) -> bool:
        """Whether a phase can be corrected: its report was acknowledged, or is on its way."""
        book = self.site.people.phases[phase]
        return book.reported is not None and (book is self.site.people.current or phase in self.receipts())

    def release(self, phase: int) -> None:
        release(self._folder, study=self.site.study, agent=self.site.agent, phase=phase)
        self._something.set()

    def _work(self) -> None:
        worker = make_worker(
            self.site,
            self._client,
            self._outbox,
            say=self._say,
            warn=self._warn,
            sleep=self._wait,
            patience=PATIENCE,
            heard=self._hear,
        )
        while not self._stop.is_set():
            self._heard = False
            try:
                plan = worker.step()
                self._hand_over_corrections()
                if plan is not None and plan.over:
                    self._wait(AGAIN)
            except Exception as error:  # any failure: nothing but `close` may end this thread, or reports would stop
                self.words = str(error) if isinstance(error, ParleyError) else f"trying again: {type(error).__name__}"
                self._wait(AGAIN)

    def _hand_over_corrections(self) -> None:
        if time.monotonic() - self._looked < LOOK_AGAIN:
            return
        try:
            self.unsent = hand_over_corrections(self.site, self._client, self._outbox)
            self._looked = time.monotonic()
        except Unreachable:
            return  # the next round reports the failure, and tries again

    def _hear(self, plan: AgentPlan) -> None:
        self._contact = time.monotonic()
        if plan.phase in self.receipts():
            self._warning = ""
        self.words, self._heard = self._warning or "connected", True

    def _warn(self, words: str) -> None:
        self._warning = self.words = words

    def _say(self, words: str) -> None:
        """Set the status text, unless this round fetched a plan.

        The messages of such a round are about the site, whose state the page shows anyway.
        """
        if not self._heard:
            self.words = words

    def _wait(self, seconds: float) -> None:
        """Sleep, but wake up when something is entered."""
        self._something.wait(seconds)
        self._something.clear()
