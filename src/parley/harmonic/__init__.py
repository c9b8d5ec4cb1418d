"""The certified solver of harmonic programs: batched, priced, timed, each answer with a proven gap."""

from parley.harmonic.programs import ArmPrograms, ContrastPrograms
from parley.harmonic.solution import Solution, Status
from parley.harmonic.solver import proven_gap, solve

__all__ = ["ArmPrograms", "ContrastPrograms", "Solution", "Status", "proven_gap", "solve"]
