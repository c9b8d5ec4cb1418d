"""What a key of the study file is: the kinds of value it may have, and the words in which people are told of it.

Every key is one row, which the file's reader, the form for a new study and the tables of `docs/study-file.md` share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.errors import InvalidInput, UnknownName

__all__ = ["NUMBER", "REQUIRED", "Key", "check_kinds", "check_section", "full_name"]

NUMBER = (int, float)
REQUIRED = "required"
WORDS = {int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a section"}


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key: what TOML may hold there, what it means, and what counts when it is left out (both in Markdown).

    >>> Key(kinds=(int, list), meaning="how many arms, or their names", default=REQUIRED).allowed
    'a whole number or a list'
    """

    kinds: tuple[type, ...]
    meaning: str
    default: str = ""

    @property
    def allowed(self) -> str:
        """The kinds in words."""
        return " or ".join(WORDS[kind] for kind in self.kinds if not (kind is int and float in self.kinds))

    @property
    def plain(self) -> tuple[str, str]:
        """Meaning and default without Markdown.

        >>> Key(kinds=(str,), meaning="`wcpe`; see [policies](policies.md)", default="`wcpe`").plain
        ('wcpe; see policies', 'wcpe')
        """
        words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text) for text in (self.meaning, self.default))
        meaning, default = (text.replace("`", "") for text in words)
        return meaning, default


def full_name(section: str, key: str) -> str:
    """How a key is named outside of its section.

    >>> full_name("privacy", "minimum_cell"), full_name("", "delta")
    ('privacy.minimum_cell', 'delta')
    """
    return f"{section}.{key}" if section else key


def check_section(name: str, section: Mapping[str, Any], known: Mapping[str, Key]) -> None:
    """An unknown key, or a value of another kind, is an error that names the key and what is allowed.

    >>> check_section("privacy", {"cell": 3}, {"minimum_cell": Key(kinds=(int,), meaning="")})
    Traceback (most recent call last):
        ...
    parley.errors.UnknownName: key in [privacy]: found 'cell'; allowed: one of minimum_cell
    """
    for key in section:
        if key not in known:
            raise UnknownName(f"key in [{name}]" if name else "key", key, known)
    check_kinds(name, section, known)


def check_kinds(name: str, section: Mapping[str, Any], known: Mapping[str, Key]) -> None:
    """The kinds of the values whose keys are known; others are somebody else's to check."""
    for key, value in section.items():
        row = known.get(key)
        if row is not None and (
            not isinstance(value, row.kinds) or (isinstance(value, bool) and bool not in row.kinds)
        ):
            raise InvalidInput(full_name(name, key), found=repr(value), allowed=row.allowed)
