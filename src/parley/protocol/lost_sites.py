"""The question without lost sites, and what the recorded phases say about it.

A frozen agent leaves the mix: the rest of every column that weighs it is normalised anew, or other weights are given.
A frozen agent's own column stays as it was asked; where it weighs a frozen agent (mostly itself) its question rests,
and the agent has *left*, unless weights are given for it too. The state is then the fold of all recorded phases under
the new weights, by the same pure policy. `docs/lost-sites.md` has the proof that the guarantee stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from parley.checks import mixing_weights, real_array
from parley.errors import InvalidInput
from parley.policies import POLICIES, Policy, State
from parley.problem import FloatArray
from parley.protocol.messages import StudyMessage, Weights
from parley.totals import Totals

__all__ = ["Weights", "ask_anew", "folded", "left_by", "not_reweighable", "weights_without"]


def not_reweighable(study: StudyMessage) -> str | None:
    """Why a study's question cannot be asked anew in mid-study; None where it can."""
    if "site_counts" not in POLICIES[study.policy].supports or study.problem.horizon is not None:
        return f"the guarantee of the policy {study.policy} holds for the draws that it planned itself"
    return None


def weights_without(
    study: StudyMessage, frozen: Iterable[str], given: Mapping[str, Sequence[float]] | None = None
) -> Weights:
    """The weights of a study as it was created, without its frozen agents; `given` columns stand instead.

    >>> weights = ((0.5, 0.4, 0.2), (0.1, 0.4, 0.2), (0.4, 0.2, 0.6))
    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x", "y", "z"), weights=weights, policy="evidence")
    >>> [[round(w, 3) for w in row] for row in weights_without(study, ["z"])]
    [[0.833, 0.5, 0.2], [0.167, 0.5, 0.2], [0.0, 0.0, 0.6]]
    """
    given = given or {}
    places = _places(study, frozen)
    weights = np.array(study.weights, dtype=np.float64)
    for column, agent in enumerate(study.agents):
        if agent in given:
            weights[:, column] = _given(study, agent, given[agent])
        elif column not in places and weights[places, column].any():
            weights[places, column] = 0.0
            if not weights[:, column].any():
                raise InvalidInput(
                    "weights",
                    found=f"nothing left in the mix of {agent!r} without {', '.join(frozen)}",
                    allowed="a column for it: whose rewards it asks about from now on",
                )
            weights[:, column] /= weights[:, column].sum()
    unknown = sorted(set(given) - set(study.agents))
    if unknown:
        raise InvalidInput("weights", found=f"a column for {unknown[0]!r}", allowed=", ".join(study.agents))
    return tuple(map(tuple, mixing_weights(weights).tolist()))


def _given(study: StudyMessage, agent: str, column: Sequence[float]) -> FloatArray:
    count = len(study.agents)
    allowed = f"{count} numbers of at least 0 that sum to 1, one for every agent's reward in its mix"
    values = real_array("weights", column, allowed)
    if values.shape != (count,) or not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1) > 1e-6:
        shown = ", ".join(f"{value:g}" for value in values.ravel()[:8])
        raise InvalidInput(f"weights of {agent}", found=f"[{shown}]", allowed=allowed)
    return values


def left_by(study: StudyMessage, weights: Weights, frozen: Iterable[str]) -> tuple[str, ...]:
    """The frozen agents whose own question rests under new weights; raises where anybody else's would wait for one."""
    frozen = set(frozen)
    matrix, places = np.array(weights), _places(study, frozen)
    waits = np.asarray(matrix[places].any(axis=0))
    for column, agent in enumerate(study.agents):
        if waits[column] and agent not in frozen:
            raise InvalidInput(
                f"weights of {agent}",
                found=f"weight on {study.agents[places[int(matrix[places, column].argmax())]]!r}, which is frozen",
                allowed="0 for frozen agents: they draw no more. Thaw it first, or weigh others",
            )
    left = tuple(agent for column, agent in enumerate(study.agents) if waits[column])
    if len(left) == len(study.agents):
        raise InvalidInput("agents", found="all of them frozen", allowed="at least one who goes on asking")
    return left


def _places(study: StudyMessage, names: Iterable[str]) -> list[int]:
    return sorted(study.agents.index(name) for name in names)


def ask_anew(study: StudyMessage, weights: Weights) -> StudyMessage:
    """The same study with other weights, checked as a new one is."""
    return msgspec.structs.replace(study, weights=weights)


def folded(policy: Policy, past: Sequence[Totals]) -> list[State]:
    """The policy's state after every recorded phase, had it been asked from the start; the start comes first.

    Every bet of a phase is made from the state before it, so nothing of a phase is known when its bets are made; how
    many draws it has was fixed before it, by whatever rule.
    """
    states = [policy.start(past[0].counts.shape[:-2] if past else ())]
    for totals in past:
        states.append(policy.update(states[-1], totals))
    return states
