"""Schemas of requests: bodies and query parameters, as OpenAPI documents them.

The schemas check only the form of a request; the protocol checks its meaning. The bodies of acts are in
`parley.protocol.acts`.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from parley.coordinator.access.tokens import Role
from parley.protocol import EVENTS, Stage
from parley.protocol.codec import LARGEST_PHASE, LONGEST_NAME, Count, Model, Name

LONGEST_WAIT = 60
AnyPhase = Annotated[int, Meta(ge=0, le=LARGEST_PHASE)]
Limit = Annotated[int, Meta(ge=1, le=1000)]


class NewStudyBody(Model):
    """A study to run: a `parley/study/1` document, and its id; without `id`, the id is made from the name."""

    study: dict[str, Any]
    id: Annotated[str, Meta(max_length=64)] | None = None


class EstimateBody(NewStudyBody):
    """A study to estimate. `power` also asks for the smallest `max_samples` that has this power at this `gap`."""

    power: Annotated[float, Meta(gt=0, lt=1)] | None = None
    gap: Annotated[float, Meta(ge=0)] | None = None


class TokenBody(Model):
    """Who a token is for. An agent's token needs study and agent; an administrator's token needs neither."""

    role: Role
    name: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    study: Name | None = None
    agent: Name | None = None


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of query parameters. Unknown parameters are ignored."""


class SomeAgents(Query, frozen=True, kw_only=True):
    """A range of agents by index, since an answer about all agents of a large study would be too long."""

    first: Annotated[int, Meta(ge=0, le=1_000_000, description="The place of the first agent.")] = 0
    columns: Annotated[int, Meta(ge=1, le=2000, description="How many agents.")] = 2000


class HistoryQuery(SomeAgents, frozen=True, kw_only=True):
    """A range of agents, and the phases to list: `limit` phases after phase `after`."""

    after: AnyPhase = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    explain: Annotated[bool, Meta(description="Include means, radii and scores.")] = True


class FindingsQuery(SomeAgents, frozen=True, kw_only=True):
    """A range of agents, and the phase after which to show their findings."""

    phase: Annotated[AnyPhase | None, Meta(description="After this phase; default: the latest.")] = None


class StudiesQuery(Query, frozen=True, kw_only=True):
    """Which studies to list. `search` looks in names and ids; `after` is the id after which the list continues."""

    search: Annotated[str, Meta(max_length=LONGEST_NAME)] = ""
    stage: Stage | None = None
    after: Annotated[str, Meta(max_length=64)] = ""
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class PageQuery(Query, frozen=True, kw_only=True):
    """A page of a list; `after` is the number of the record after which the list continues."""

    after: Count = 0
    limit: Limit = 100


class LogQuery(PageQuery, frozen=True, kw_only=True):
    """Which records of a log to list: those after record `after`; with `newest_first`, the earlier ones, newest first.

    With `newest_first`, a list without `after` starts at the last record.
    """

    newest_first: bool = False


class StudyLogQuery(LogQuery, frozen=True, kw_only=True):
    """Which records of a study's log to list, as in `LogQuery`; `kind` and `actor` select records."""

    kind: Annotated[Annotated[str, Meta(max_length=40)] | None, Meta(description=f"One of {', '.join(EVENTS)}.")] = None
    actor: Annotated[str, Meta(max_length=300)] | None = None


class QuarantineQuery(LogQuery, frozen=True, kw_only=True):
    """Which quarantined reports to list; by default, all.

    With `held`: those still held. With `beside`: those waiting although another report of the same agent and phase
    was accepted. With both: reports of either kind.
    """

    held: bool = False
    beside: bool = False


class TokensQuery(Query, frozen=True, kw_only=True):
    """Which tokens to list: those of one study, or all."""

    study: Annotated[str, Meta(max_length=64)] | None = None


class PlanQuery(Query, frozen=True, kw_only=True):
    """What a request for a plan states: the last phase that the agent reported, and the progress of its site."""

    after: Annotated[AnyPhase, Meta(description="The last phase the agent has reported.")] = 0
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT, description="Seconds to wait for a later phase.")] = 0.0
    during: Annotated[AnyPhase, Meta(description="The phase that the next three values are about.")] = 0
    recruited: Annotated[Count | None, Meta(description="People assigned in it so far.")] = None
    observed: Annotated[Count | None, Meta(description="Number of these people with an outcome.")] = None
    unmasked: Annotated[
        Count | None, Meta(description="In a masked study: people whose arm was shown, ever, if any.")
    ] = None
    objection: Annotated[str, Meta(max_length=500, description="What the site's own policy allows instead.")] = ""
