"""The form of request bodies, as OpenAPI shows it. Meaning is checked by the protocol, not here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from parley.coordinator.access.tokens import Role
from parley.protocol import Report
from parley.protocol.codec import LARGEST_INTEGER
from parley.protocol.report_checks import REASONS

__all__ = [
    "AmendBody",
    "ColumnsBody",
    "FreezeBody",
    "Limit",
    "NewStudyBody",
    "PathPhase",
    "ProblemView",
    "ReasonBody",
    "ReceiptView",
    "ReportBody",
    "ReweighBody",
    "Sequence",
    "TokenBody",
]

LARGEST_PHASE = 1_000_000


def _clean(text: str) -> str:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("text without NUL characters and lone surrogates is allowed")
    return text


Name = Annotated[str, Field(min_length=1, max_length=100), AfterValidator(_clean)]
Words = Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_clean)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
PhaseNumber = Annotated[int, Field(ge=1, le=LARGEST_PHASE, strict=True)]
PathPhase = Annotated[int, Path(ge=1, le=LARGEST_PHASE)]
Sequence = Annotated[int, Query(ge=0, le=LARGEST_INTEGER)]  # of a list of records, after which it goes on
Limit = Annotated[int, Query(ge=1, le=1000)]
PAGE = 4 * 1024 * 1024  # characters of records in one answer; a single one may be larger
Count = Annotated[int, Field(ge=0, le=LARGEST_INTEGER, strict=True)]
Number = Annotated[float, Field(allow_inf_nan=False, strict=True)]


class Body(BaseModel):
    """Unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class ReportBody(Body):
    """What an agent drew in a phase: per arm the count, the sum of rewards, the sum of their squares."""

    schema_: Literal["parley/report/1"] = Field(alias="schema")
    study: Name
    phase: PhaseNumber
    agent: Name
    plan: Digest
    counts: Annotated[list[Count], Field(max_length=100_000), FailFast()]  # one wrong number is enough said
    sums: Annotated[list[Number], Field(max_length=100_000), FailFast()]
    squares: Annotated[list[Number], Field(max_length=100_000), FailFast()]
    missing: Annotated[
        list[Count], Field(max_length=100_000, description="Per arm: people without an outcome."), FailFast()
    ] = []
    reason: Annotated[
        str, Field(max_length=40, description=f"Why the counts are not the plan's: {', '.join(REASONS)}.")
    ] = ""
    final: Annotated[bool, Field(strict=True, description="Fewer draws than planned, and that is all.")] = False

    def message(self) -> Report:
        """As the protocol has it."""
        return Report(
            study=self.study,
            phase=self.phase,
            agent=self.agent,
            plan=self.plan,
            counts=tuple(self.counts),
            sums=tuple(self.sums),
            squares=tuple(self.squares),
            missing=tuple(self.missing),
            reason=self.reason,
            final=self.final,
        )


class NewStudyBody(Body):
    """A study to run: a `parley/study/1` document, and the id by which it will be addressed."""

    id: Annotated[str, Field(max_length=64)] | None = None
    study: dict[str, Any]


class ReasonBody(Body):
    """Why; kept in the log."""

    reason: Words


class FreezeBody(ReasonBody):
    """`consequences` is the digest that the preview gave: what was seen is what is confirmed."""

    consequences: Digest


class ColumnsBody(Body):
    """Given weights: agent -> what every agent's reward weighs in its mix. The others' are normalised anew."""

    columns: Annotated[dict[Name, Annotated[list[Number], Field(max_length=100_000)]], Field(max_length=100_000)] = {}


class ReweighBody(FreezeBody, ColumnsBody):
    """The columns that the preview was asked with, and its digest."""


class AmendBody(ReasonBody):
    """The report that shall stand instead."""

    report: ReportBody


class RefuseBody(ReasonBody):
    """`report` is the digest of the one that is held: what was seen is what is refused."""

    report: Digest


class TokenBody(Body):
    """Whom a token is for. An agent's needs study and agent; an administrator's neither."""

    role: Role
    name: Annotated[str, Field(max_length=100), AfterValidator(_clean)] = ""
    study: Name | None = None
    agent: Name | None = None


class ReceiptView(BaseModel):
    """Proof that a report is in the log; keep it and send it with the next report (header Parley-Receipt)."""

    schema_: Literal["parley/receipt/1"] = Field(alias="schema")
    study: str
    phase: int
    agent: str
    report: Digest
    sequence: int
    head: Digest


class ProblemView(BaseModel):
    """RFC 9457, and whether sending the same again can help."""

    type: str
    title: str
    status: int
    detail: str
    retry: bool
