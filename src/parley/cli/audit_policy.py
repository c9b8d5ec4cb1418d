"""`parley audit-policy`: the error probability of a study's policy, measured where nobody can count it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from parley.cli.console import json_option, print_json, progress_bar, screen, study_argument, table
from parley.errors import InvalidInput
from parley.policies import make_policy
from parley.policies.evidence_racing import EvidenceRacing
from parley.problem import Problem
from parley.simulation.rare import RareError, ruled_out_probability
from parley.simulation.ties import Tie, hardest_ties
from parley.study import load_study

__all__ = ["command"]


@dataclass(frozen=True, kw_only=True)
class _Cell:
    """One true top arm of one agent, at one tie."""

    tie: Tie
    agent: int
    found: RareError

    def document(self, problem: Problem) -> dict[str, Any]:
        return {
            "tie": self.tie.words,
            "arm": problem.arms[self.tie.arm],
            "agent": problem.agents[self.agent],
            "delta": problem.delta,
            "error": self.found.probability,
            "standard_error": self.found.standard_error,
            "effective_runs": self.found.effective,
            "largest_share": self.found.largest_share,
            "unresolved": self.found.unresolved,
        }


@click.command("audit-policy")
@study_argument
@click.option("--delta", type=float, help="Another delta than the study's own.")
@click.option("--agent", "only", metavar="NAME", help="One agent only.")
@click.option("--replications", default=4000, show_default=True, help="Tilted runs of every cell.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same numbers.")
@json_option
def command(study: str, delta: float | None, only: str | None, replications: int, seed: int, as_json: bool) -> None:
    """Measure how often STUDY's policy rules out a true top arm, at the ties that are hardest for it.

    At delta 1e-5 nobody can count errors. Runs are drawn from the measure that the policy's own bets describe, under
    which errors are common, and weighed back exactly: a few thousand runs tell a probability of 1e-10 to some per
    cent. A cell is one tie and one agent; the sum over the agents bounds the error of the whole study. An estimate
    that too few runs carry is refused.
    """
    loaded = load_study(study)
    problem = loaded.problem if delta is None else loaded.problem.with_(delta=delta)
    policy = make_policy(loaded.policy, problem, loaded.options, loaded.instance)
    if not isinstance(policy, EvidenceRacing):
        raise InvalidInput("policy", found=policy.name, allowed="evidence: only its bets say how errors come about")
    if only is not None and only not in problem.agents:
        raise InvalidInput("--agent", found=repr(only), allowed=f"one of {', '.join(problem.agents)}")
    agents = _distinct(problem) if only is None else [problem.agents.index(only)]
    ties = hardest_ties(problem)
    cells = []
    with progress_bar(f"audit of {loaded.name}", replications * len(ties) * len(agents), hidden=as_json) as advance:
        for tie in ties:
            for agent in agents:
                found = ruled_out_probability(
                    policy, tie.instance, arm=tie.arm, agent=agent, replications=replications, seed=seed,
                    progress=advance,
                )  # fmt: skip
                cells.append(_Cell(tie=tie, agent=agent, found=found.require_believable()))
    worst = max(cells, key=lambda cell: cell.found.probability)
    if as_json:
        print_json(
            {
                "study": loaded.name,
                "policy": policy.name,
                "delta": problem.delta,
                "replications": replications,
                "seed": seed,
                "cells": [cell.document(problem) for cell in cells],
                "worst": worst.document(problem),
            }
        )
        return
    title = f"{loaded.name}: {policy.name} at delta {problem.delta:g}, {replications:,} tilted runs a cell, seed {seed}"
    shown = table(title, "tie", "agent", "arm", "ruled out with probability", "± standard error", "of delta")
    for cell in cells:
        told = cell.document(problem)
        error, spread = told["error"], told["standard_error"]
        share = f"{error / problem.delta:.3f}"
        shown.add_row(told["tie"], told["agent"], told["arm"], f"{error:.3g}", f"{spread:.1g}", share)
    screen.print(shown)
    screen.print("An error of the study is one of these for some agent: their sum over the agents is at most delta.")


def _distinct(problem: Problem) -> list[int]:
    """One agent of every distinct column of weights: the others err alike."""
    _, first = np.unique(problem.weights, axis=1, return_index=True)
    return sorted(int(place) for place in first)
