"""A site's answers if weights are in doubt: a map from weights to arms.

Between two neighbouring steps every weight is linear, and so is every difference of mixed means. So an answer that is
right at both steps is right between them, within the same tolerance. If two neighbouring steps have different answers,
nothing follows for the weights between them: a third arm may be best midway. The map says only that the answer changes
in this interval. Finer steps, if the study has them, are decided only in such intervals; elsewhere the answer at a
finer step follows from its neighbours (`halfway`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.questions import stated_step
from parley.text.translation import Translatable, joined

Arms = tuple[str, ...]
ROUNDING = 1e-12  # largest rounding error of a weight


def step_columns(problem: Problem) -> IntArray:
    """`(site that asks, step)`: index of the agent that asks a site's question at a step; empty if there are no steps.

    >>> weights = np.zeros((4, 4))
    >>> weights[0], weights[1] = [0.5, 0.5, 0.9, 0.1], [0.5, 0.5, 0.1, 0.9]
    >>> roles = {"asks_only": ["agent 3", "agent 4"], "weight_steps": ["x", "y"]}
    >>> step_columns(Problem(arms=2, weights=weights, **roles)).tolist()
    [[0, 2], [1, 3]]
    """
    steps = len(problem.weight_steps)
    sites = np.flatnonzero(problem.draws & problem.asks)
    if not steps:
        return np.zeros((0, 0), dtype=np.int64)
    # Further questions come last: site by site, a question for every step except the stated step.
    further = np.arange(problem.agent_count - len(sites) * (steps - 1), problem.agent_count)
    stated = stated_step(steps, problem.weight_refine)
    return np.insert(further.reshape(len(sites), steps - 1), stated, sites, axis=1)


def halfway(problem: Problem) -> list[IntArray]:
    """Agents that ask each finer question and its two neighbours: `(finer question, 3)` per level, coarsest first.

    After a study was re-weighed, a question's weights may no longer lie between its neighbours' weights. Then its
    answer does not follow from its neighbours' answers, and the question is omitted.
    """
    columns, weights, levels = step_columns(problem), problem.weights.T, list[IntArray]()
    for level in reversed(range(problem.weight_refine)):
        half = 2**level
        steps = range(half, columns.shape[1], 2 * half)
        triples = [one for step in steps for one in columns[:, [step, step - half, step + half]].tolist()]
        between = [one for one in triples if _on_segment(*weights[one])]
        levels.append(np.array(between, dtype=np.int64).reshape(-1, 3))
    return levels


def _on_segment(point: FloatArray, start: FloatArray, end: FloatArray) -> bool:
    """Whether the weights `point` are a mix of the weights `start` and `end`, up to rounding."""
    along = end - start
    share = np.clip((point - start) @ along / max(float(along @ along), np.finfo(np.float64).tiny), 0.0, 1.0)
    return bool(np.abs(point - start - share * along).max() <= ROUNDING)


def stated_alone(problem: Problem) -> Problem:
    """The problem at its middle step.

    All questions of a site become copies of its question at that step. Copies cost nothing.
    """
    weights, columns = problem.weights.copy(), step_columns(problem)
    for places in columns:
        weights[:, places] = weights[:, places[stated_step(columns.shape[1], problem.weight_refine), None]]
    return problem.with_(weights=weights, weight_steps=(), weight_refine=0)


@dataclass(frozen=True, kw_only=True)
class Range:
    """Neighbouring steps with the same answer, which holds for all weights from step `first` to step `last`."""

    first: int
    last: int
    arms: Arms


@dataclass(frozen=True, kw_only=True)
class WeightMap:
    """The answers of one site at every step of weights in doubt.

    >>> steps = ("alpha 0.3", "alpha 0.5", "alpha 0.7")
    >>> found = WeightMap(agent="x", questions=("y", "x", "z"), steps=steps, arms=(("B",), ("B",), ("A",)))
    >>> str(found.words)
    'B from alpha 0.3 to alpha 0.5, A at alpha 0.7; the answer changes in between'
    """

    agent: str
    questions: tuple[str, ...]  # the agent that asks at each step; `agent` itself at the middle step
    asked: tuple[str, ...] = ()  # the agents of all steps, including finer steps that the map omits
    steps: tuple[str, ...]  # the names of the steps
    arms: tuple[Arms | None, ...]  # the answer at each step; None without an answer

    @property
    def ranges(self) -> list[Range]:
        """The longest ranges of steps with the same answer, in order; a step without an answer belongs to no range."""
        made: list[Range] = []
        for step, arms in enumerate(self.arms):
            if arms is None:
                continue
            if made and made[-1].last == step - 1 and made[-1].arms == arms:
                made[-1] = Range(first=made[-1].first, last=step, arms=arms)
            else:
                made.append(Range(first=step, last=step, arms=arms))
        return made

    @property
    def words(self) -> str:
        """The map as a sentence."""
        parts = [
            Translatable("{0} at {1}", ", ".join(one.arms), self.steps[one.first])
            if one.first == one.last
            else Translatable("{0} from {1} to {2}", ", ".join(one.arms), self.steps[one.first], self.steps[one.last])
            for one in self.ranges
        ]
        if not parts:
            return Translatable("no answer yet")
        said: str = joined(", ", parts)
        if len(parts) > 1:
            said = joined("; ", [said, Translatable("the answer changes in between")])
        if None in self.arms:
            said = joined("; ", [said, Translatable("for the other weights there is no answer")])
        return said

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Restore a map from the JSON of `to_json`; its ranges and its sentence are computed again."""
        steps = document["steps"]
        return cls(
            agent=document["agent"],
            questions=tuple(one["question"] for one in steps),
            asked=tuple(document["questions"]),
            steps=tuple(one["step"] for one in steps),
            arms=tuple(None if one["arms"] is None else tuple(one["arms"]) for one in steps),
        )

    def to_json(self) -> dict[str, Any]:
        """The map as JSON: the steps with their answers, the ranges with one answer each, and the map's sentence."""
        return {
            "agent": self.agent,
            "questions": list(self.asked),
            "steps": [
                {"step": step, "question": question, "arms": None if arms is None else list(arms)}
                for step, question, arms in zip(self.steps, self.questions, self.arms, strict=True)
            ],
            "ranges": [
                {"from": self.steps[one.first], "to": self.steps[one.last], "arms": list(one.arms)}
                for one in self.ranges
            ],
            "words": str(self.words),
        }


def weight_maps(problem: Problem, answers: BoolArray, answered: Sequence[bool] | BoolArray) -> list[WeightMap]:
    """A map for every site that asks, from `answers (arm, agent)`; no maps if weights are not in doubt.

    `answered (agent,)` says which agents have an answer. Answers are the same if they name the same N arms. A finer
    step between neighbours with the same answer adds nothing and is omitted.
    """

    def named(place: int) -> Arms | None:
        chosen = (arm for arm, kept in zip(problem.arms, answers[:, place], strict=True) if kept)
        return tuple(chosen) if answered[place] else None

    columns = step_columns(problem)
    arms = {place: named(place) for place in columns.ravel().tolist()}
    follows = set[int]()
    for place, one, other in (triple for level in halfway(problem) for triple in level.tolist()):
        if arms[one] is not None and arms[one] == arms[other]:
            arms[place] = arms[one]
            follows.add(place)
    made = []
    for places in columns.tolist():
        listed = [step for step, place in enumerate(places) if place not in follows]
        made.append(
            WeightMap(
                agent=problem.agents[places[stated_step(len(places), problem.weight_refine)]],
                questions=tuple(problem.agents[places[step]] for step in listed),
                asked=tuple(problem.agents[place] for place in places),
                steps=tuple(problem.weight_steps[step] for step in listed),
                arms=tuple(arms[places[step]] for step in listed),
            )
        )
    return made
