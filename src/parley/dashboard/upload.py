"""A study file sent by a browser: its text to the document that the API takes."""

from __future__ import annotations

import tomllib
from typing import Any

from parley.errors import InvalidInput
from parley.protocol import StudyMessage
from parley.study import parse_study

__all__ = ["study_document"]


def study_document(text: str) -> dict[str, Any]:
    """The `parley/study/1` document of a study file. No file of the server's is ever read.

    >>> study_document('arms = 2\\nagents = ["Lyon"]')["agents"]
    ['Lyon']
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput("study file", found=str(error), allowed="a valid TOML document") from None
    weights = document.get("weights")
    if isinstance(weights, dict) and "file" in weights:
        raise InvalidInput(
            "weights.file",
            found="the name of another file, which a browser does not send",
            allowed='kind = "matrix" with the rows in `matrix`',
        )
    found: dict[str, Any] = StudyMessage.of(parse_study(document)).to_json()
    return found
