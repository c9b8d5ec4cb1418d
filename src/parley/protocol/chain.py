"""The audit log as a chain: every record holds the hash of the one before, so none can be changed, dropped or moved.

A hash that everybody may see commits to what nobody else may: who can list the few reports that are possible could try
each, were there not a random salt in every record. `docs/audit.md` has the recipe.

Cutting the end off is the one thing a chain alone cannot show; the receipts that agents keep do, and time stamps.
Receipts also show that what was logged for an agent is what it sent.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Meta

from parley.errors import BrokenChain, InvalidInput
from parley.protocol.codec import Count, Digest, Message, canonical, digest, encoded, sha256
from parley.protocol.messages import Receipt

GENESIS = "0" * 64  # what the first record names as the one before it
SALT_DIGITS = 32
Salt = Annotated[str, Meta(pattern=f"^[0-9a-f]{{{SALT_DIGITS}}}$")]


def new_salt() -> str:
    """128 random bits, in hexadecimal.

    >>> len(new_salt())
    32
    """
    return secrets.token_hex(SALT_DIGITS // 2)


class Record(Message, tag="parley/record/1"):
    """One line of a log. `at` is for people; nothing is decided by it."""

    stream: str  # a study's id, or "server"
    sequence: Count  # from 1
    at: str
    actor: str  # the principal that caused it
    kind: str
    payload: Mapping[str, Any]
    previous: str
    hash: str
    salt: Salt

    def __post_init__(self) -> None:
        if not isinstance(self.salt, str) or len(self.salt) != SALT_DIGITS:
            raise ValueError(f"a record needs a salt of {SALT_DIGITS} digits")  # nobody's input: ours to mend

    @classmethod
    def after(
        cls,
        last: Record | None,
        *,
        stream: str,
        at: str,
        actor: str,
        kind: str,
        payload: Mapping[str, Any],
        salt: str | None = None,
    ) -> Record:
        """The next record of a chain.

        >>> first = Record.after(None, stream="s", at="2026-01-01T00:00:00Z", actor="me", kind="paused", payload={})
        >>> second = Record.after(first, stream="s", at="2026-01-02T00:00:00Z", actor="me", kind="resumed", payload={})
        >>> [record.sequence for record in chained([first, second])]
        [1, 2]
        """
        head = (last.sequence, last.hash) if last else (0, GENESIS)
        return cls.linked(*head, stream=stream, at=at, actor=actor, kind=kind, payload=payload, salt=salt)

    @classmethod
    def linked(
        cls,
        sequence: int,
        head: str,
        *,
        stream: str,
        at: str,
        actor: str,
        kind: str,
        payload: Mapping[str, Any],
        salt: str | None = None,
        payload_text: str | None = None,
    ) -> Record:
        """The record that follows a chain of `sequence` records whose last hash is `head`; a new salt unless given.

        `payload_text` is the payload's canonical text, where somebody has it already.
        """
        body: dict[str, Any] = {
            "stream": stream,
            "sequence": sequence + 1,
            "at": at,
            "actor": actor,
            "kind": kind,
            "payload": payload,
            "previous": head,
            "salt": salt or new_salt(),
        }
        return cls(**body, hash=digest(body) if payload_text is None else sha256(_around(body, payload_text)))

    def line(self, payload_text: str) -> str:
        """The line of this record with a payload that is written out already.

        >>> record = Record.after(None, stream="s", at="2026-01-01T00:00:00Z", actor="me", kind="paused", payload={})
        >>> record.line("{}") == record.text
        True
        """
        return _around(self.to_json(), payload_text)

    @property
    def hashed(self) -> bytes:
        """What the hash is of: the canonical text without `schema` and `hash`."""
        return encoded({key: value for key, value in self.to_json().items() if key not in ("schema", "hash")})

    @property
    def computed(self) -> str:
        """The hash this record should have."""
        return hashlib.sha256(self.hashed).hexdigest()


class Stamp(Message, tag="parley/stamp/1"):
    """What a time stamp authority answered about the head of a log. It stands beside the log, or with somebody else."""

    study: str
    sequence: Count  # of the record that is stamped, and with it all before
    head: Digest
    authority: str  # the host that was asked
    response: Annotated[str, Meta(max_length=100_000)]  # RFC 3161, DER in base64


Proof: TypeAlias = Receipt | Stamp | tuple[int, str]  # that the chain went through a (sequence, head)


def _around(body: Mapping[str, Any], payload_text: str) -> str:
    """The text of a body whose payload is written out already: keys are sorted, so it has its place between others."""
    front = canonical({key: value for key, value in body.items() if key < "payload"})
    back = canonical({key: value for key, value in body.items() if key > "payload"})
    return f'{front[:-1]},"payload":{payload_text},{back[1:]}'


def chained(records: Iterable[Record]) -> Iterator[Record]:
    """The records as they come, each checked against the one before; the first flaw raises `BrokenChain`."""
    sequence, head, stream = 0, GENESIS, None
    for record in records:
        stream = record.stream if stream is None else stream
        if record.sequence != sequence + 1:
            raise BrokenChain(f"record {sequence + 1} is missing or out of order: found {record.sequence}")
        if record.stream != stream:
            raise BrokenChain(f"record {record.sequence} belongs to {record.stream!r}, not to {stream!r}")
        if record.previous != head:
            raise BrokenChain(f"record {record.sequence} does not follow record {sequence}: its link is wrong")
        if record.hash != record.computed:
            raise BrokenChain(f"record {record.sequence} was changed: its hash does not fit its content")
        sequence, head = record.sequence, record.hash
        yield record


def check_receipts(heads: Mapping[int, str], given: Mapping[int, Receipt], receipts: Iterable[Proof]) -> None:
    """Raise `BrokenChain` if a receipt or a stamp names a record the log does not have, or one with another report.

    `given` has the receipts that the log itself gives for its reports, by their sequence. A stamp or a bare (sequence,
    head) only shows that the chain went through there; a receipt shows that the agent's own report is what was logged.
    """
    for receipt in receipts:
        sequence, head = receipt if isinstance(receipt, tuple) else (receipt.sequence, receipt.head)
        if sequence < 1 or not head:
            raise InvalidInput("receipt", found=f"{sequence}, {head!r:.80}", allowed="a sequence from 1 and a hash")
        if heads.get(sequence) != head:
            what = "ends before it" if sequence not in heads else "has another record there"
            who = f"a time stamp of {receipt.authority}" if isinstance(receipt, Stamp) else "a receipt"
            raise BrokenChain(f"{who} names record {sequence} with the hash {head:.12}..., but the log {what}")
        if isinstance(receipt, Receipt) and receipt != given.get(sequence):
            raise BrokenChain(
                f"{receipt.agent!r} holds a receipt of {receipt.study!r} for its report {receipt.report:.12}... of "
                f"phase {receipt.phase}, but record {sequence}, which it names, does not hold that report"
            )
