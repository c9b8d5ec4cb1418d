"""A study file sent by a browser: its text to the document that the API takes."""

from __future__ import annotations

import tomllib

from parley.errors import InvalidInput
from parley.keys import full_name
from parley.protocol import StudyMessage
from parley.study import SECTIONS, parse_study

__all__ = ["key_rows", "uploaded_study"]

ANOTHER_FILE = "weights.file"


def key_rows() -> list[tuple[str, str, str]]:
    """Key, meaning and default of all that a browser may send, in plain words.

    >>> key_rows()[3]
    ('delta', "largest probability that any agent's answer is wrong, between 0 and 1", '0.1')
    """
    rows = ((full_name(section, key), row) for section, keys in SECTIONS.items() for key, row in keys.items())
    return [(key, *row.plain) for key, row in rows if key != ANOTHER_FILE and not key.startswith("truth.")]


def uploaded_study(text: str) -> StudyMessage:
    """The study of a study file, without its truth. No file of the server's is ever read.

    >>> uploaded_study('arms = 2\\nagents = ["Lyon"]').agents
    ('Lyon',)
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput("study file", found=str(error), allowed="a valid TOML document") from None
    weights = document.get("weights")
    if isinstance(weights, dict) and "file" in weights:
        raise InvalidInput(
            ANOTHER_FILE,
            found="the name of another file, which a browser does not send",
            allowed='kind = "matrix" with the rows in `matrix`',
        )
    return StudyMessage.of(parse_study(document))
