"""All error answers of the API: RFC 9457 problem documents with stable types.

The table `PROBLEMS` has for each slug the status, the title, and whether sending the same request again can help. A
released slug keeps its meaning.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import JSONResponse

from parley.text.translation import Translatable, joined
from parley.web.guard import problem


@dataclass(frozen=True)
class Kind:
    """A kind of problem. `retry` says that the same request may succeed later."""

    status: int
    title: str
    retry: bool = False


PROBLEMS: dict[str, Kind] = {
    "bad-request": Kind(400, "The request cannot be read"),
    "no-token": Kind(401, "A token is required"),
    "bad-token": Kind(401, "The token is unknown or revoked"),
    "not-allowed": Kind(403, "The token does not allow this"),
    "form-expired": Kind(403, "This form has expired"),
    "not-found": Kind(404, "There is nothing at this address"),
    "method-not-allowed": Kind(405, "This address does not support that method"),
    "report-conflict": Kind(409, "Another report was already accepted for this phase; this one is kept in quarantine"),
    "report-held": Kind(409, "The report is waiting for an administrator", retry=True),
    "report-refused": Kind(409, "An administrator refused this report"),
    "wrong-plan": Kind(409, "The report was made for another plan"),
    "phase-closed": Kind(409, "The phase is closed"),
    "phase-future": Kind(409, "The phase has not begun"),
    "nothing-asked": Kind(409, "This phase needs no report from this agent"),
    "agent-frozen": Kind(409, "The agent is frozen"),
    "study-paused": Kind(409, "The study is paused", retry=True),
    "receipt-unknown": Kind(409, "The log does not match the receipt; the study is paused"),
    "illegal-move": Kind(409, "This is not possible at the present stage of the study"),
    "already-exists": Kind(409, "This conflicts with existing data"),
    "changed-meanwhile": Kind(409, "The study has changed in the meantime"),
    "preview-unknown": Kind(409, "This preview was not shown to you"),
    "too-many-tokens": Kind(409, "The principal already has two live tokens"),
    "length-required": Kind(411, "The request must state the length of its body"),
    "too-large": Kind(413, "The body is too large"),
    "unsupported-media-type": Kind(415, "The body must be JSON"),
    "head-too-large": Kind(431, "The request line and headers are too long"),
    "invalid-request": Kind(422, "The request does not have the required form"),
    "invalid-study": Kind(422, "The study cannot be run"),
    "impossible-report": Kind(422, "The numbers of the report are impossible"),
    "too-fast": Kind(429, "Too many requests from one token", retry=True),
    "internal": Kind(500, "Internal error in the coordinator", retry=True),
    "too-busy": Kind(503, "The coordinator is busy with other computations", retry=True),
    "provider-unavailable": Kind(503, "The sign-in provider is not responding", retry=True),
    "storage-unavailable": Kind(503, "The database is not responding", retry=True),
}


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457). `retry` says whether sending the same request again can help.

    Some problems have further keys.
    """

    type: str
    title: str
    status: int
    detail: str
    retry: bool


class Refusal(Exception):
    """A problem that is the answer to a request.

    If the work of a transaction raises a refusal, the transaction is undone. If the work returns the refusal instead,
    the transaction is committed.
    """

    def __init__(self, slug: str, detail: str, *, headers: dict[str, str] | None = None, **extra: Any) -> None:
        super().__init__(detail)
        self.slug, self.detail, self.extra, self.headers = slug, detail, extra, headers or {}

    @property
    def kind(self) -> Kind:
        """The row of `PROBLEMS`: status, title and retry."""
        return PROBLEMS[self.slug]

    @property
    def status(self) -> int:
        """The HTTP status of the problem."""
        return self.kind.status

    @property
    def sentence(self) -> str:
        """What was refused, and why, as a sentence."""
        return joined(": ", [Translatable(self.kind.title), self.detail])

    def document(self) -> dict[str, Any]:
        """The problem document, as plain values.

        >>> Refusal("phase-closed", "phase 2 was decided", phase=2).document()["status"]
        409
        """
        return {
            "type": f"urn:parley:problem:{self.slug}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "retry": self.kind.retry,
            **self.extra,
        }

    def response(self) -> JSONResponse:
        """The problem document as an HTTP response."""
        return problem(self.document(), self.headers)
