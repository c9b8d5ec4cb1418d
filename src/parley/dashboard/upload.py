"""A study file sent by a browser: its text to the document that the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parley.errors import InvalidInput
from parley.protocol import StudyMessage
from parley.settings import full_name
from parley.study import SECTIONS, parse_study, read_toml

__all__ = ["key_rows", "uploaded_study"]

ANOTHER_FILE = "weights.file"


def key_rows() -> list[tuple[str, str, str]]:
    """Key, meaning and default of all that a browser may send, in plain words.

    >>> key_rows()[3]
    ('delta', "largest probability that any agent's answer is wrong, between 0 and 1", '0.1')
    """
    rows = ((full_name(section, key), row) for section, keys in SECTIONS.items() for key, row in keys.items())
    return [(key, *row.plain) for key, row in rows if key != ANOTHER_FILE and not key.startswith("truth.")]


def _require_small(document: Mapping[str, Any], most_agents: int, most_cells: int) -> None:
    """Before anything is made from it: weights of 6,000 agents are 36 million numbers."""
    agents, arms = (len(value) if isinstance(value, list) else value for value in map(document.get, ("agents", "arms")))
    if not isinstance(agents, int) or not isinstance(arms, int):
        return  # whoever reads it further says what is wrong
    if agents > most_agents or agents * arms > most_cells:
        raise InvalidInput(
            "arms, agents",
            found=f"{arms:.6g} arms x {agents:.6g} agents",
            allowed=f"up to {most_agents} agents and {most_cells} cells here",
        )


def uploaded_study(text: str, most_agents: int = 2_000, most_cells: int = 100_000) -> StudyMessage:
    """The study of a study file, without its truth, if it is not too large here. No file of the server's is ever read.

    >>> uploaded_study('arms = 2\\nagents = ["Lyon"]').agents
    ('Lyon',)
    """
    document = read_toml(text)
    _require_small(document, most_agents, most_cells)
    weights = document.get("weights")
    if isinstance(weights, dict) and "file" in weights:
        raise InvalidInput(
            ANOTHER_FILE,
            found="the name of another file, which a browser does not send",
            allowed='kind = "matrix" with the rows in `matrix`',
        )
    return StudyMessage.of(parse_study(document))
