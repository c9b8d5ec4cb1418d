"""Where an agent's rewards come from: a Python function, a command, a CSV file that grows, or a simulated arm.

A source is a callable: plan in, `Totals` out. `repeatable` says whether asking twice for one phase gives the same
rewards; one that cannot is never asked twice.
"""

from __future__ import annotations

import importlib
import math
import os
import shlex
import subprocess
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol

import numpy as np

from parley.agent.csv_source import CsvSource, RowMemory
from parley.agent.plans import AgentPlan, Delivery
from parley.errors import InvalidInput, SourceFailed
from parley.protocol import Report
from parley.simulation import phase_totals
from parley.study import Study, load_study
from parley.totals import Totals

FORMS = "python:MODULE:FUNCTION, command:PROGRAM ARGUMENTS, csv:FILE, or simulate:STUDY.toml"


class Source(Protocol):
    """Draws what a plan asks for."""

    repeatable: bool

    def __call__(self, plan: AgentPlan) -> Totals | Delivery:
        """The totals of exactly `plan.draws` rewards, or others with their reason."""


def _numbers(arm: str, values: Iterable[object], count: int) -> list[float]:
    """`count` finite numbers, or an error that names the arm."""
    drawn: list[float] = []
    for value in values:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise InvalidInput(f"rewards of {arm}", found=f"{value!r:.60}", allowed="numbers") from None
        if not math.isfinite(number):
            raise InvalidInput(f"rewards of {arm}", found=value, allowed="finite numbers")
        drawn.append(number)
    if len(drawn) != count:
        raise InvalidInput(f"rewards of {arm}", found=f"{len(drawn)} numbers", allowed=f"{count}, as planned")
    return drawn


def _asked(plan: AgentPlan) -> Iterator[tuple[str, int]]:
    assert plan.draws is not None
    return zip(plan.arms, plan.draws, strict=True)


class FunctionSource:
    """`module:function`, called as `function(arm, count)`, returns `count` rewards."""

    repeatable = False

    def __init__(self, address: str) -> None:
        module, _, name = address.partition(":")
        try:
            self._draw: Callable[[str, int], Iterable[object]] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise InvalidInput(
                "source", found=f"python:{address} ({error})", allowed="python:MODULE:FUNCTION"
            ) from None

    def __call__(self, plan: AgentPlan) -> Totals:
        return Totals.of([_numbers(arm, self._drawn(plan, arm, n), n) if n else [] for arm, n in _asked(plan)])

    def _drawn(self, plan: AgentPlan, arm: str, count: int) -> list[object]:
        """What the user's function gives; its failure is theirs, and is reported as such."""
        try:
            return list(self._draw(arm, count))
        except Exception as error:
            own = "".join(traceback.format_exception(error.with_traceback(_outer(error))))
            name = f"{self._draw.__module__}:{getattr(self._draw, '__qualname__', self._draw)}"
            raise SourceFailed(
                f"your function {name} failed for the arm {arm!r} ({count} rewards):\n\n{own}\n{_way_out(plan)}"
            ) from None


def _outer(error: Exception) -> TracebackType | None:
    """The traceback from the user's own first line on; ours is not their concern."""
    found = error.__traceback__
    return found.tb_next if found is not None and found.tb_next is not None else found


def _way_out(plan: AgentPlan) -> str:
    """What to do after a failure in the middle of a draw."""
    return (
        f"Parley does not know what phase {plan.phase} has spent. If nothing was, or what was can be thrown away "
        f"without having been looked at, mend it and start again with `--draw-again {plan.phase}`; if rewards were "
        "seen, tell the study's administrator"
    )


class CommandSource:
    """A program, called once an arm with the arm's name and the count as its last arguments, that prints rewards."""

    repeatable = False

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)
        if not self._command:
            raise InvalidInput("source", found="command: without a program", allowed=FORMS)

    def __call__(self, plan: AgentPlan) -> Totals:
        return Totals.of([self._run(plan, arm, n) if n else [] for arm, n in _asked(plan)])

    def _run(self, plan: AgentPlan, arm: str, count: int) -> list[float]:
        # The token is in this process's environment; the program has no business with it.
        environment = {key: value for key, value in os.environ.items() if key != "PARLEY_TOKEN"}
        environment |= {"PARLEY_STUDY": plan.study, "PARLEY_AGENT": plan.agent, "PARLEY_PHASE": str(plan.phase)}
        try:
            done = subprocess.run(
                [*self._command, arm, str(count)],
                stdout=subprocess.PIPE,
                text=True,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise InvalidInput("source", found=f"{self._command[0]} ({error.strerror})", allowed="a program") from None
        if done.returncode != 0:
            raise SourceFailed(
                f"your program {self._command[0]} ended with exit status {done.returncode} for the arm {arm!r}. "
                + _way_out(plan)
            )
        return _numbers(arm, done.stdout.split(), count)


def make_source(
    text: str,
    *,
    seed: int,
    whole_plan: Callable[[int], tuple[tuple[int, ...], ...]],
    taken: Callable[[int], Report | None],
    memory: RowMemory,
) -> Source:
    """A source by its words: `python:m:f`, `command:...`, `csv:file` or `simulate:study.toml`."""
    kind, _, rest = text.partition(":")
    if kind == "python" and rest:
        return FunctionSource(rest)
    if kind == "command":
        return CommandSource(rest)
    if kind == "csv" and rest:
        return CsvSource(rest, taken, memory)
    if kind == "simulate" and rest:
        return SimulatedSource(load_study(rest), seed=seed, whole_plan=whole_plan)
    raise InvalidInput("source", found=repr(text), allowed=FORMS)


class SimulatedSource:
    """Rewards of replication 0 of a simulation."""

    repeatable = True  # the same seed gives the same rewards

    def __init__(self, study: Study, *, seed: int, whole_plan: Callable[[int], tuple[tuple[int, ...], ...]]) -> None:
        self._instance = study.require_truth()
        self._seed, self._whole_plan = seed, whole_plan

    def __call__(self, plan: AgentPlan) -> Totals:
        problem = self._instance.problem
        if plan.arms != problem.arms or plan.agent not in problem.agents:
            raise InvalidInput("study file", found="other arms or agents than the live study's", allowed="the same")
        place = problem.agents.index(plan.agent)
        quotas = np.array(self._whole_plan(plan.phase), dtype=np.int64)
        return phase_totals(self._instance, seed=self._seed, phase=plan.phase - 1, counts=quotas)[:, place]
