"""A participant's arm as a feature flag: OFREP, the protocol of all OpenFeature SDKs.

The flag is the study, its variants are the arms, and the targeting key is the participant's key. The first evaluation
assigns the participant an arm and records the arm in the journal; later evaluations return it. docs/integrations.md has
a table of who gets what.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from parley.agent.entries import checked_key
from parley.agent.site import Assignment
from parley.agent.strata import Strata
from parley.covariates import checked_x
from parley.errors import InvalidInput, NotNow
from parley.protocol.codec import Model, described, sha256
from parley.site.access import Access, Refused
from parley.site.app import SiteOperation, SiteParts


class EvaluationRequest(Model, forbid_unknown_fields=False):
    """The participant for whom a flag is evaluated.

    From the context, a site reads only `targetingKey`, `stratum` if the site has several strata, and the study's
    covariate by its name. Nothing else is stored.
    """

    context: Annotated[
        dict[str, Any], described("`targetingKey` is the participant's key; a covariate has its own name.")
    ] = msgspec.field(default_factory=dict)


class Evaluation(Model, omit_defaults=True):
    """The value of a flag for one participant."""

    key: str
    reason: Annotated[str, described("SPLIT, STATIC, DEFAULT or DISABLED.")]
    variant: Annotated[str, described("The arm; empty without one.")]
    metadata: Annotated[
        dict[str, bool | int | str],
        described("`study`, `agent`, `counted` (in the study); `phase`, or `why` nobody is assigned."),
    ]
    value: Annotated[str | None, described("The arm; left out where the application's default holds.")] = None


class Evaluations(Model):
    """All flags of a site, which has exactly one."""

    flags: list[Evaluation]


class EvaluationFailure(Model, omit_defaults=True):
    """Why a flag was not evaluated."""

    errorCode: str  # noqa: N815
    errorDetails: str  # noqa: N815
    key: str = ""


class NotEvaluated(Refused):
    """A refused evaluation, with the error code that OFREP has for it."""

    def __init__(self, code: str, words: str, *, status: int = 400) -> None:
        super().__init__(status, words)
        self.code = code


class Flags:
    """The two operations of OFREP for one site. `given` assigns an arm, as it does for the site's own API."""

    def __init__(
        self, given: Callable[..., Awaitable[Assignment]], access: Access, *, flag: str, strata: Strata
    ) -> None:
        self._given, self._access, self._flag, self._strata = given, access, flag, strata

    async def evaluate_flag(self, request: Request) -> Response:
        """Evaluate one flag for a participant (OFREP): its value is their arm. A new participant is assigned an arm."""
        key = request.path_params["key"]
        if key != self._flag:
            words = f"found {key!r:.80}; this site has the flag {self._flag!r}"
            raise NotEvaluated("FLAG_NOT_FOUND", words, status=404)
        return JSONResponse((await self._evaluated(request)).to_json())

    async def evaluate_flags(self, request: Request) -> Response:
        """Evaluate all flags of the site for a participant (OFREP). A new participant is assigned an arm."""
        answer = Evaluations(flags=[await self._evaluated(request)])
        tag = f'"{sha256(answer.text)[:32]}"'
        held = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
        if tag in held:
            return Response(status_code=304, headers={"ETag": tag})
        return JSONResponse(answer.to_json(), headers={"ETag": tag})

    def refused(self, request: Request, status: int, error: Exception) -> Response:
        """The response for a failure, in OFREP's format."""
        code = error.code if isinstance(error, NotEvaluated) else "GENERAL"
        failure = EvaluationFailure(errorCode=code, errorDetails=str(error), key=request.path_params.get("key", ""))
        return JSONResponse(failure.to_json(), status_code=status)

    async def _evaluated(self, request: Request) -> Evaluation:
        participant, more = await self._participant(request)
        site = self._strata.of(participant) or self._strata.named(more.get("stratum", ""))
        metadata: dict[str, bool | int | str] = {"study": site.study, "agent": site.agent}
        try:
            # Programs do not mistype keys: a key that resembles a known one is another participant's.
            given = await self._given(participant, somebody_else=True, **more)
        except NotNow as error:
            metadata |= {"counted": False, "why": str(error)}
            return Evaluation(key=self._flag, reason="DISABLED", variant="", metadata=metadata)
        metadata |= {"counted": given.counted, "phase": given.phase}
        reason = "SPLIT" if given.counted else "DEFAULT" if given.shown is None else "STATIC"
        shown = given.shown
        return Evaluation(key=self._flag, reason=reason, variant=shown or "", metadata=metadata, value=shown)

    async def _participant(self, request: Request) -> tuple[str, dict[str, Any]]:
        """The participant's key, and for a new participant the stratum and covariate in the context."""
        try:
            document = await self._access.json(request)
        except InvalidInput as error:
            raise NotEvaluated("PARSE_ERROR", str(error)) from None
        try:
            context = EvaluationRequest.from_json(document).context
            key = context.get("targetingKey")
            if key in ("", None):
                raise NotEvaluated("TARGETING_KEY_MISSING", "context.targetingKey is the participant's key: send one")
            return checked_key(key), self._of_newcomer(checked_key(key), context)
        except InvalidInput as error:
            raise NotEvaluated("INVALID_CONTEXT", str(error)) from None

    def _of_newcomer(self, key: str, context: dict[str, Any]) -> dict[str, Any]:
        """A new participant's stratum and covariate; empty for a known participant, whose arm is already assigned."""
        if self._strata.of(key) is not None:
            return {}
        found: dict[str, Any] = {}
        if len(self._strata.sites) > 1:
            said = context.get("stratum", "")
            found["stratum"] = self._strata.named(said if isinstance(said, str) else repr(said)).stratum
        if name := self._strata.rules.covariate:
            x = context.get(name)
            found |= {"without_covariate": True} if x is None else {"covariate": checked_x(name, x)}
        return found


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Path parameters of the operations."""

    key: Annotated[str, described("The key of the flag.")] = ""


def operations(site: SiteParts) -> tuple[SiteOperation, ...]:
    """The operations for one flag and for all flags; the flag's key is the study's id unless `--flag` names another."""
    flags = Flags(
        site.given, site.access, flag=site.options.get("flag") or site.strata.sites[0].study, strata=site.strata
    )
    ofrep: dict[str, Any] = {"tag": "feature flags", "method": "POST", "place": Place}
    ofrep |= {"body": EvaluationRequest, "failure": EvaluationFailure, "refused": flags.refused}
    return (
        SiteOperation(path="/ofrep/v1/evaluate/flags/{key}", handler=flags.evaluate_flag, **ofrep, answer=Evaluation),
        SiteOperation(
            path="/ofrep/v1/evaluate/flags",
            handler=flags.evaluate_flags,
            **ofrep,
            answer=Evaluations,
            headers={"If-None-Match": "ETags of answers that the client has."},
            also={304: "What the client has still holds."},
        ),
    )
