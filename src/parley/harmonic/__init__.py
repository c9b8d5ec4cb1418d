"""The certified solver of harmonic programs: batched, with prices and time; each solution has a proven gap."""

from parley.harmonic.programs import ArmPrograms, ContrastPrograms
from parley.harmonic.solver import Solution, Status, proven_gap, solve

__all__ = ["ArmPrograms", "ContrastPrograms", "Solution", "Status", "proven_gap", "solve"]
