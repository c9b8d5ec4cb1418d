"""The agent's loop: fetch the plan, draw once, store the report, send it until acknowledged, keep the receipt.

The process may be killed between any two lines. A report is in the outbox before it is sent, so after a restart the
same report is sent again, and the coordinator counts it once.
"""

import errno
import random
import sys
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from parley.agent.outbox import Outbox
from parley.agent.plans import AgentPlan, Delivery, NotYet, Withheld, meant, proven
from parley.agent.privacy import Disclosure
from parley.agent.sources import Source
from parley.errors import Blocked, Conflict, CoordinatorError, InvalidInput, NoRoom, Unreachable, WrongPlan
from parley.protocol import Receipt, Report
from parley.totals import Totals

CLOSED = "urn:parley:problem:phase-closed"
FROZEN = "urn:parley:problem:agent-frozen"
HELD = "urn:parley:problem:report-held"
REFUSED = "urn:parley:problem:report-refused"
# Refusals that neither waiting nor the end of the study resolves: an administrator must look into them.
SETTLED = ("urn:parley:problem:report-conflict", "urn:parley:problem:receipt-unknown")


SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN}  # the machine lacks a resource, perhaps not for long
MOST_DRAWS = 10_000_000  # in one phase: a source that keeps rewards in memory cannot provide more


class Coordinator(Protocol):
    """The two methods of a `Client` that a worker calls."""

    def plan(self, study: str, agent: str, *, after: int = 0, wait: float = 0, **far: int | str) -> AgentPlan:
        """Fetch the agent's plan. In `far`, a site may send its progress and its objection to the plan."""

    def send(self, report: Report, *, receipt: Receipt | None = None) -> Receipt:
        """Send a report and return its receipt."""


FIRST_WAIT, LONGEST_WAIT = 0.2, 30.0  # seconds


class Backoff:
    """Random waiting times below a limit that doubles, so that agents do not all come back at once.

    >>> waits = Backoff()
    >>> [waits.next() <= limit for limit in (0.2, 0.4, 0.8, 1.6)]
    [True, True, True, True]
    """

    _limit = FIRST_WAIT

    def next(self) -> float:
        wait, self._limit = self._limit * random.random(), min(2 * self._limit, LONGEST_WAIT)
        return wait

    def reset(self) -> None:
        self._limit = FIRST_WAIT


AGAIN = f"trying again, at least every {LONGEST_WAIT:g} s"
Answer = TypeVar("Answer")


def persistent(
    call: Callable[[], Answer], say: Callable[[str], None], *, sleep: Callable[[float], None] = time.sleep
) -> Answer:
    """Repeat `call` until a coordinator answers, and return its result: an agent may be started before the coordinator.

    A proxy that refuses the connection, or a certificate that is not trusted, raises `Blocked` at once: waiting would
    not help the person who starts the agent.
    """
    backoff, last = Backoff(), ""
    while True:
        try:
            return call()
        except Blocked:
            raise
        except Unreachable as error:
            if str(error) != last:  # say the same message once, however often the call fails
                last = str(error)
                say(f"{error}; {AGAIN}")
            sleep(backoff.next())


class Worker:
    """The loop of one agent in one study.

    `say` gets messages about progress, and `warn` gets messages that a person must act on. `patience` is the longest
    wait for a plan, in seconds. `far` returns the site's progress, which is sent with every request for a plan; `heard`
    gets every plan. Nothing is drawn or sent that `disclosure` forbids. A plan with more than `most_draws` draws is
    refused: a coordinator, or a server that pretends to be one, could ask for more rewards than the machine can hold.
    """

    def __init__(
        self,
        client: Coordinator,
        outbox: Outbox,
        source: Source,
        *,
        say: Callable[[str], None] = lambda _: None,
        warn: Callable[[str], None] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        patience: float = 20.0,
        far: Callable[[], dict[str, int | str]] = dict,
        heard: Callable[[AgentPlan], None] = lambda _: None,
        disclosure: Disclosure | None = None,
        most_draws: int = MOST_DRAWS,
    ) -> None:
        self._client, self._outbox, self._source = client, outbox, source
        self._say, self._warn, self._sleep, self._patience = say, warn or say, sleep, patience
        self._far, self._heard, self._disclosure, self._most_draws = far, heard, disclosure or Disclosure(), most_draws
        self._objection = (0, "")  # a phase, and the site policy's objection to it
        self._drawn: tuple[AgentPlan, Totals | Delivery] | None = None  # draws that are not in the outbox yet
        self._backoff = Backoff()
        self._idle = 0  # the last phase that asks nothing more of this agent
        self._held = ""  # the last message about a held report
        self._why = ""  # the last message about why the worker waits

    def run(self) -> AgentPlan:
        """Repeat `step` until the study is over; returns the last plan."""
        while True:
            plan = self.step()
            if plan is not None and plan.over:
                self._say(f"nothing more to do: the study is {plan.stage}")
                return plan

    def step(self) -> AgentPlan | None:
        """Run one round: send the pending report, then fetch a plan and draw its rewards.

        Returns the plan; None if the round failed and must be repeated.
        """
        try:
            # The previous round may have drawn, and failed to store the draws.
            self._keep()
            pending = self._outbox.pending()
            if pending is not None and self._disclosure.holds(self._outbox, pending):
                return self._hold(pending)
            if pending is not None and (ended := self._hand_over(pending)) is not None:
                return ended
            # Wait for the study to pass every phase that is reported, or that asks nothing of this agent.
            last = self._outbox.last_receipt()
            done = max(last.phase if last else 0, self._idle)
            plan = self._plan(after=done, wait=self._patience)
            self._heard(plan)
            if plan.stage == "paused" or (plan.resting and not plan.over):
                self._wait(f"the study is paused: {plan.reason}" if plan.stage == "paused" else plan.resting)
                return plan
            if plan.due:
                if objection := self._disclosure.objection(plan.draws or ()):
                    return self._object(plan, f"{objection}. Nothing is drawn for this plan")
                try:
                    return self._answer(plan) or plan
                except Withheld as error:
                    return self._object(plan, str(error))
            if plan.draws is None or plan.reported:
                self._note_stranger(plan)
                self._idle = plan.phase
            self._backoff.reset()
            self._why = ""
            return plan
        except Unreachable as error:
            held = error.problem.get("type") == HELD
            if held:
                self._note_held(error)
            self._wait(None if held else str(error))
        except NotYet as error:
            self._wait(str(error))
        # If file descriptors or disk space run out, retry: draws that are not stored yet must not be lost.
        except (OSError, NoRoom) as error:
            if self._drawn is None and getattr(error, "errno", None) not in SCARCE:
                raise
            self._wait(str(error))
        return None

    def _plan(self, *, after: int = 0, wait: float = 0) -> AgentPlan:
        study, agent = self._outbox.study, self._outbox.agent
        far, (phase, words) = self._far(), self._objection
        if words:
            far = (far if far.get("during") == phase else {}) | {"during": phase, "objection": words}
        return meant(self._client.plan(study, agent, after=after, wait=wait, **far), study, agent)

    def _object(self, plan: AgentPlan, words: str) -> AgentPlan:
        """Report the site policy's objection to a phase: to the site once, to the coordinator with every request."""
        if self._objection != (plan.phase, words):
            self._objection = plan.phase, words
            self._warn(f"phase {plan.phase}: {words}")
            self._plan()
        self._wait()
        return plan

    def _hold(self, report: Report) -> AgentPlan:
        """Keep a report that a person must still release; set it aside if the study went on without it."""
        plan = self._plan()
        self._heard(plan)
        if plan.over:
            return plan
        if plan.phase > report.phase:
            self._set_aside(report)
            return plan
        return self._object(plan, "the report waits in the outbox until a person at the site releases it")

    def _note_stranger(self, plan: AgentPlan) -> None:
        """Warn, once per phase, if the coordinator has a report of this agent that this outbox did not send."""
        if plan.reported and plan.phase > self._idle and self._outbox.report(plan.phase) is None:
            self._warn(
                f"phase {plan.phase}: the coordinator has a report of {plan.agent!r} that was not sent from this "
                "outbox. If the outbox is new, or an older one was lost, that is why. If not, another program holds "
                "this agent's token: tell the administrator, who can revoke it, check the log and amend the report"
            )

    def _note_held(self, error: Unreachable) -> None:
        """Warn, once per message, that the coordinator holds the report back because it looks implausible."""
        if str(error) != self._held:
            self._held = str(error)
            self._warn(
                f"{error}. Check what was entered, and tell the administrator whether it is right. Until then the "
                "study waits for this agent"
            )

    def _answer(self, plan: AgentPlan) -> AgentPlan | None:
        """Draw the rewards of a plan. If its report is in the outbox, the coordinator lost the report: send it again.

        Returns the latest plan if a report was sent again and not accepted, otherwise None.
        """
        drawn = self._outbox.report(plan.phase)
        if drawn is not None:
            return self._hand_over(drawn)
        self._draw(plan)
        return None

    def _draw(self, plan: AgentPlan) -> None:
        assert plan.draws is not None
        if sum(plan.draws) > self._most_draws:
            raise WrongPlan(
                f"phase {plan.phase} asks this agent for {sum(plan.draws):,} rewards, and at most "
                f"{self._most_draws:,} are drawn at once (--most-draws). Nothing is drawn; tell the administrator"
            )
        self._say(f"phase {plan.phase}: drawing {sum(plan.draws)} rewards")
        self._outbox.begin(plan.phase, repeatable=self._source.repeatable)
        try:
            drawn = self._source(plan)
        except NotYet:
            self._outbox.abandon(plan.phase)
            raise
        self._drawn = plan, drawn
        self._keep()

    def _keep(self) -> None:
        """Store the latest draws in the outbox, as the report that may leave the site; do nothing if there are none."""
        if self._drawn is None:
            return
        try:
            report = self._disclosure.report(*self._drawn, self._outbox)
        except (InvalidInput, Withheld):
            self._drawn = None
            raise
        self._outbox.keep(report)
        self._drawn = None
        sys.audit("parley.reached", "report-kept")

    def _hand_over(self, report: Report) -> AgentPlan | None:
        """Send a report and store its receipt. Returns the latest plan if the report is not accepted but stays pending.

        A receipt for any other report raises `WrongReceipt`, which ends the worker. That receipt is not stored, so this
        report stays pending in the outbox.
        """
        try:
            receipt = proven(self._client.send(report, receipt=self._outbox.last_receipt()), report)
        except Conflict as error:
            kind = str(error.problem.get("type", ""))
            # What to do about the refusal depends on where the study is now.
            plan = self._plan()
            if plan.over and kind not in SETTLED:
                self._say(f"phase {report.phase}: no longer accepted ({error}); it stays in the outbox")
                return plan
            # `plan` was fetched after the refusal, so a frozen agent may have been thawed in between.
            if kind == FROZEN or (plan.resting and kind not in SETTLED):
                self._wait(f"phase {report.phase}: not accepted now ({error}); it stays in the outbox")
                return plan
            if kind == CLOSED and plan.phase > report.phase:  # an administrator closed the phase early
                self._set_aside(report)
                return None
            if kind == REFUSED and not self._outbox.was_aside(report):
                self._outbox.set_aside(report.phase)
                self._warn(
                    f"phase {report.phase}: {error}. The report is set aside in the outbox, and the phase is drawn or "
                    "read again"
                )
                return None
            raise CoordinatorError(_advice(kind, error, report), error.problem) from None
        sys.audit("parley.reached", "report-sent")
        self._objection, self._why = (0, ""), ""
        self._outbox.acknowledge(receipt)
        self._say(f"phase {report.phase}: reported, receipt {receipt.sequence}:{receipt.head[:12]}")
        return None

    def _set_aside(self, report: Report) -> None:
        self._outbox.set_aside(report.phase)
        self._warn(f"phase {report.phase} was closed without this report; it is set aside in the outbox")

    def _wait(self, why: str | None = None) -> None:
        """Wait, and say why. A reason is not repeated until a round has succeeded."""
        if why is not None and why != self._why:
            self._why = why
            self._say(f"{why}; {AGAIN}")
        self._sleep(self._backoff.next())


def _advice(kind: str, error: CoordinatorError, report: Report) -> str:
    if kind == REFUSED:
        return f"{error}. The same numbers came again: correct them, or ask the administrator to accept them"
    if kind not in SETTLED:
        return f"the report of phase {report.phase} was refused: {error}"
    if kind.endswith("receipt-unknown"):
        return f"{error}. The coordinator's log is not the one this agent reported to; tell its administrator"
    return f"{error}. Another report of phase {report.phase} was accepted before this one; tell the administrator"
