"""The form of what is sent: bodies and query parameters, as OpenAPI shows them. The protocol checks what they mean."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from parley.coordinator.access.tokens import Role
from parley.coordinator.http.context import LARGEST_PHASE
from parley.protocol import EVENTS, Report, Stage
from parley.protocol.codec import LARGEST_INTEGER
from parley.protocol.report_checks import REASONS

__all__ = [
    "AmendBody",
    "ColumnsBody",
    "ConfirmBody",
    "FindingsQuery",
    "HistoryQuery",
    "LogQuery",
    "NewStudyBody",
    "PageQuery",
    "PlanQuery",
    "QuarantineQuery",
    "ReasonBody",
    "RefuseBody",
    "ReportBody",
    "ReweighBody",
    "SomeAgents",
    "StudiesQuery",
    "StudyLogQuery",
    "TokenBody",
    "TokensQuery",
]

LONGEST_WAIT = 60
NO_NUL = r"^[^\x00]*$"  # no database takes one

Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=NO_NUL)]
Words = Annotated[str, Meta(min_length=1, max_length=2000, pattern=NO_NUL)]
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
PhaseNumber = Annotated[int, Meta(ge=1, le=LARGEST_PHASE)]
AnyPhase = Annotated[int, Meta(ge=0, le=LARGEST_PHASE)]
Count = Annotated[int, Meta(ge=0, le=LARGEST_INTEGER)]
Counts = Annotated[tuple[Count, ...], Meta(max_length=100_000)]
Numbers = Annotated[tuple[float, ...], Meta(max_length=100_000)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unknown keys are mistakes."""


class ReportBody(Body, frozen=True, kw_only=True):
    """What an agent drew in a phase: per arm the count, the sum of rewards, the sum of their squares."""

    schema: Literal["parley/report/1"]
    study: Name
    phase: PhaseNumber
    agent: Name
    plan: Digest
    counts: Counts
    sums: Numbers
    squares: Numbers
    missing: Annotated[Counts, Meta(description="Per arm: people without an outcome.")] = ()
    reason: Annotated[
        str, Meta(max_length=40, description=f"Why the counts are not the plan's: {', '.join(REASONS)}.")
    ] = ""
    final: Annotated[bool, Meta(description="Fewer draws than planned, and that is all.")] = False

    def message(self) -> Report:
        """As the protocol has it."""
        given = msgspec.structs.asdict(self)
        del given["schema"]
        return Report(**given)


class NewStudyBody(Body, frozen=True, kw_only=True):
    """A study to run: a `parley/study/1` document, and the id by which it will be addressed."""

    study: dict[str, Any]
    id: Annotated[str, Meta(max_length=64)] | None = None


class ReasonBody(Body, frozen=True, kw_only=True):
    """Why; kept in the log."""

    reason: Words


class ConfirmBody(ReasonBody, frozen=True, kw_only=True):
    """`consequences` is the digest that the preview gave: what was seen is what is confirmed."""

    consequences: Digest


class ColumnsBody(Body, frozen=True, kw_only=True):
    """Given weights: agent -> what every agent's reward weighs in its mix. The others' are normalised anew."""

    columns: Annotated[dict[Name, Numbers], Meta(max_length=100_000)] = {}


class ReweighBody(ConfirmBody, frozen=True, kw_only=True):
    """The columns that the preview was asked with, and its digest."""

    columns: Annotated[dict[Name, Numbers], Meta(max_length=100_000)] = {}


class AmendBody(ReasonBody, frozen=True, kw_only=True):
    """The report that shall stand instead."""

    report: ReportBody


class RefuseBody(ReasonBody, frozen=True, kw_only=True):
    """`report` is the digest of the one that is held: what was seen is what is refused."""

    report: Digest


class TokenBody(Body, frozen=True, kw_only=True):
    """Whom a token is for. An agent's needs study and agent; an administrator's neither."""

    role: Role
    name: Annotated[str, Meta(max_length=100, pattern=NO_NUL)] = ""
    study: Name | None = None
    agent: Name | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a query. Unknown ones are ignored."""


class SomeAgents(Query, frozen=True, kw_only=True):
    """Of large studies an answer may be about some agents only, by their places."""

    first: Annotated[int, Meta(ge=0, le=1_000_000, description="The place of the first agent.")] = 0
    columns: Annotated[int, Meta(ge=1, le=2000, description="How many agents.")] = 2000


class HistoryQuery(SomeAgents, frozen=True, kw_only=True):
    """`after` continues."""

    after: AnyPhase = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    explain: Annotated[bool, Meta(description="With means, radii and scores.")] = True


class FindingsQuery(SomeAgents, frozen=True, kw_only=True):
    """Of some agents, after a phase."""

    phase: Annotated[AnyPhase | None, Meta(description="After it; default: the latest.")] = None


class StudiesQuery(Query, frozen=True, kw_only=True):
    """`search` looks into names and ids, `after` continues."""

    search: Annotated[str, Meta(max_length=100)] = ""
    stage: Stage | None = None
    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class PageQuery(Query, frozen=True, kw_only=True):
    """`after` is the sequence of the record after which a list goes on."""

    after: Count = 0
    limit: Limit = 100


class LogQuery(PageQuery, frozen=True, kw_only=True):
    """Later records, or earlier ones with `newest_first`."""

    newest_first: bool = False


class StudyLogQuery(LogQuery, frozen=True, kw_only=True):
    """Of a kind, of an actor."""

    kind: Annotated[Annotated[str, Meta(max_length=40)] | None, Meta(description=f"One of {', '.join(EVENTS)}.")] = None
    actor: Annotated[str, Meta(max_length=300)] | None = None


class QuarantineQuery(PageQuery, frozen=True, kw_only=True):
    """`held`: only what waits for an administrator."""

    held: bool = False


class TokensQuery(Query, frozen=True, kw_only=True):
    """Of one study."""

    study: Annotated[str, Meta(max_length=64)] | None = None


class PlanQuery(Query, frozen=True, kw_only=True):
    """What an agent knows already, and how far its site is."""

    after: Annotated[AnyPhase, Meta(description="The last phase the agent has reported.")] = 0
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for a later phase.")] = 0.0
    during: Annotated[AnyPhase, Meta(description="The phase of the next two.")] = 0
    recruited: Annotated[Count, Meta(description="People assigned in it so far.")] = 0
    observed: Annotated[Count, Meta(description="Of them with an outcome.")] = 0
