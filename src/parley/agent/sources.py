"""Where an agent's rewards come from: a Python function, a command, a CSV file that grows, or a simulated arm.

A source is a callable: plan in, `Totals` out. `repeatable` says whether asking twice for one phase gives the same
rewards; one that cannot is never asked twice.
"""

from __future__ import annotations

import csv
import importlib
import math
import os
import shlex
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from parley.agent.plans import AgentPlan
from parley.errors import InvalidInput
from parley.totals import Totals

__all__ = ["CommandSource", "CsvSource", "FunctionSource", "NotYet", "Source", "make_source"]

FORMS = "python:MODULE:FUNCTION, command:PROGRAM ARGUMENTS, csv:FILE, or simulate:STUDY.toml"


class NotYet(Exception):
    """The rewards are not all there; ask again later. Nothing was spent."""


class Source(Protocol):
    """Draws what a plan asks for."""

    repeatable: bool

    def __call__(self, plan: AgentPlan) -> Totals:
        """The totals of exactly `plan.draws` rewards."""


def _numbers(arm: str, values: Iterable[object], count: int) -> list[float]:
    """`count` finite numbers, or an error that names the arm."""
    drawn: list[float] = []
    for value in values:
        try:
            number = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
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
        return Totals.of([_numbers(arm, self._draw(arm, n), n) if n else [] for arm, n in _asked(plan)])


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
            raise InvalidInput("source", found=f"exit status {done.returncode} for arm {arm}", allowed="0")
        return _numbers(arm, done.stdout.split(), count)


class CsvSource:
    """A file with the columns `arm` and `reward` to which rows are added; a phase takes the next rows of every arm.

    `taken` knows what an earlier phase took (None: nothing was asked) or raises; so rows are used once, in order, and
    never by a guess. The agent waits until there are enough.
    """

    repeatable = True  # the same rows are there again

    def __init__(self, path: str, taken: Callable[[int], tuple[int, ...] | None]) -> None:
        self._path, self._taken = Path(path), taken

    def __call__(self, plan: AgentPlan) -> Totals:
        before = [0] * len(plan.arms)
        for phase in range(1, plan.phase):
            counts = self._taken(phase)
            before = [a + b for a, b in zip(before, counts, strict=True)] if counts else before
        rewards = self._read(plan.arms)
        chosen = []
        for (arm, count), skip in zip(_asked(plan), before, strict=True):
            rows = rewards[arm][skip : skip + count]
            if len(rows) < count:
                raise NotYet(f"{arm}: {len(rows)} of {count} rows are there")
            chosen.append(_numbers(arm, rows, count))
        return Totals.of(chosen)

    def _read(self, arms: tuple[str, ...]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {arm: [] for arm in arms}
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise NotYet(f"{self._path} is not there") from None
        complete = text[: text.rfind("\n") + 1]  # the last line may still be being written
        for number, row in enumerate(csv.DictReader(complete.splitlines()), start=2):
            arm, reward = row.get("arm"), row.get("reward")
            if arm not in found or reward is None:
                raise InvalidInput(
                    f"{self._path}, line {number}",
                    found=f"arm {arm!r}",
                    allowed=f"columns arm, reward; {', '.join(arms)}",
                )
            found[arm].append(reward)
        return found


def make_source(
    text: str,
    *,
    seed: int,
    whole_plan: Callable[[int], tuple[tuple[int, ...], ...]],
    taken: Callable[[int], tuple[int, ...] | None],
) -> Source:
    """A source by its words: `python:m:f`, `command:...`, `csv:file` or `simulate:study.toml`."""
    kind, _, rest = text.partition(":")
    if kind == "python" and rest:
        return FunctionSource(rest)
    if kind == "command":
        return CommandSource(rest)
    if kind == "csv" and rest:
        return CsvSource(rest, taken)
    if kind == "simulate" and rest:
        from parley.agent.simulated import SimulatedSource
        from parley.study import load_study

        return SimulatedSource(load_study(rest), seed=seed, whole_plan=whole_plan)
    raise InvalidInput("source", found=repr(text), allowed=FORMS)
