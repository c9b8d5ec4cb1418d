"""Simulation: environments that draw totals of rewards, and the loop that runs a policy on many replications."""

from parley.simulation.guarded import phase_outcomes
from parley.simulation.outcome import Outcome, Regret
from parley.simulation.simulate import (
    ENVIRONMENTS,
    Environment,
    Phase,
    make_environment,
    phase_pairs,
    phase_totals,
    phases,
    simulate,
    simulate_truths,
)

__all__ = [
    "ENVIRONMENTS",
    "Environment",
    "Outcome",
    "Phase",
    "Regret",
    "make_environment",
    "phase_outcomes",
    "phase_pairs",
    "phase_totals",
    "phases",
    "simulate",
    "simulate_truths",
]
