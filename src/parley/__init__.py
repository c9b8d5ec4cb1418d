"""Parley: find every agent's best arms when each agent's reward is a weighted mix of all agents' rewards.

>>> import parley
>>> problem = parley.Problem(arms=3, weights=[[0.7, 0.2], [0.3, 0.8]], delta=0.05)
>>> instance = parley.Instance(problem=problem, means=[[0.9, 0.1], [0.5, 0.6], [0.1, 0.2]])
>>> bounds = parley.lower_bounds(instance)
>>> policy = parley.make_policy("wcpe", problem)
>>> outcome = parley.simulate(policy, instance, replications=100, seed=0)
>>> outcome.error_rate <= problem.delta
True
"""

from parley.bounds import Bound, Bounds, Guarantee, lower_bounds, oracle
from parley.errors import InvalidInput, InvalidStudy, NotConverged, ParleyError, TiedArms, UnknownName
from parley.harmonic import ArmPrograms, ContrastPrograms, Solution, Status, proven_gap, solve
from parley.policies import POLICIES, Elimination, Policy, State, make_policy
from parley.problem import Instance, Problem
from parley.rewards import Noise, RewardModel
from parley.simulation import Outcome, phases, simulate
from parley.study import Study, load_study, parse_study
from parley.totals import Totals

__version__ = "1.0.0"

__all__ = [
    "POLICIES",
    "ArmPrograms",
    "Bound",
    "Bounds",
    "ContrastPrograms",
    "Elimination",
    "Guarantee",
    "Instance",
    "InvalidInput",
    "InvalidStudy",
    "Noise",
    "NotConverged",
    "Outcome",
    "ParleyError",
    "Policy",
    "Problem",
    "RewardModel",
    "Solution",
    "State",
    "Status",
    "Study",
    "TiedArms",
    "Totals",
    "UnknownName",
    "load_study",
    "lower_bounds",
    "make_policy",
    "oracle",
    "parse_study",
    "phases",
    "proven_gap",
    "simulate",
    "solve",
]
