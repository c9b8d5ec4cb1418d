"""Sign-in through an OpenID Connect provider: code flow with PKCE, state and nonce, per its discovery document.

A person named by the provider gets a row in `tokens` whose secret nobody knows. So sessions, rights, limits, revocation
and the log treat that person like a holder of a token. Requests use the project's HTTP client; Authlib builds the
addresses and checks the claims, and joserfc checks the signature.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio.to_thread
import httpx2 as httpx
from starlette.requests import Request
from starlette.responses import Response

from parley.coordinator.access import tokens
from parley.coordinator.access.tokens import Role, TokenRow
from parley.coordinator.clock import hours_between
from parley.coordinator.http.context import Context
from parley.coordinator.observability import logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Transaction
from parley.dashboard.pages.access import lead_on
from parley.dashboard.session import Page, session_cookie
from parley.dashboard.sign_in import SignIn
from parley.edges.oidc.settings import OidcSettings
from parley.protocol.codec import LONGEST_NAME
from parley.web.bodies import at_most

DONE = "/sign-in/oidc/done"  # where the provider sends people back to
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]
BEGUN = 600  # seconds in which people must come back from the provider
SECONDS = 10.0  # timeout of a request to the provider
LARGEST = 2**20  # bytes of a response
AT_ONCE = 8  # concurrent requests to the provider: limited, since anybody may start a sign-in
KEPT = 60.0  # seconds for which the provider's discovery document is cached
LEEWAY = 60  # seconds by which the provider's clock may differ from ours
LONGEST_COOKIE = 4_000  # bytes: browsers drop cookies of more than 4,096


class Provider(SignIn):
    """The provider that the operator configured.

    The state, nonce and PKCE verifier of a sign-in are derived from one secret, which is stored only in a cookie.
    """

    path = "/sign-in/oidc"

    def __init__(self, context: Context) -> None:
        server, settings = context.settings, context.settings.of(OidcSettings)
        self._settings, self._session_hours = settings, server.session_hours
        self._storage, self._clock, self._session_clock = context.storage, context.clock, context.session_clock
        self._back = server.public_url.rstrip("/") + DONE
        secret = os.environ.get("PARLEY_OIDC_SECRET", "")
        path = settings.oidc_secret_file
        self._secret = Path(path).read_text(encoding="utf-8").strip() if path else secret
        # Responses are read raw, to limit their size: they must not be compressed.
        plain, alone = {"Accept-Encoding": "identity"}, httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.AsyncClient(timeout=SECONDS, limits=alone, headers=plain)
        self._few = asyncio.Semaphore(AT_ONCE)
        self._known: tuple[float, dict[str, Any]] = (0.0, {})
        self.host = urlsplit(settings.oidc_issuer).hostname or ""
        self._by = f"oidc:{self.host}"

    async def address(self, secret: str, **more: str) -> str:
        """The provider's sign-in address for a browser with this secret; `more` are further query parameters."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        address: str = prepare_grant_uri(
            (await self._discovered())["authorization_endpoint"],
            self._settings.oidc_client_id,
            "code",
            redirect_uri=self._back,
            scope=self._settings.oidc_scope,
            state=_derived(secret, "state"),
            nonce=_derived(secret, "nonce"),
            code_challenge=create_s256_code_challenge(_derived(secret, "verifier")),
            code_challenge_method="S256",
            **more,
        )
        return address

    async def session(self, secret: str, answer: Mapping[str, str]) -> str:
        """Open a session for the person whom the provider's answer names; returns the session secret.

        Raises a `Refusal` unless the provider signed in a person who has a role here.
        """
        kid, claims = await self._named(secret, answer)
        await self._admit(kid, claims)
        at, hours = self._session_clock(), self._session_hours
        opened = self._storage.submit(lambda transaction: tokens.open_session(transaction, kid, at=at, hours=hours))
        return (await asyncio.wrap_future(opened))[0]

    async def knows(self, kid: str) -> bool:
        return await self._person(kid) is not None

    async def prove(self, shown: Page, words: str, back: str) -> Response:
        assert shown.who is not None
        secret = secrets.token_urlsafe(32)
        sealed = await self._seal_words(shown.who.kid, _bound(secret, shown), words)
        value = f"{secret}.{sealed}.{quote(back, safe='')}"
        if len(value) > LONGEST_COOKIE:
            raise Refusal("invalid-request", "name and meaning are too long to be kept while you sign in: shorten them")
        response = await lead_on(shown, f"To {self.host}", await self.address(secret, prompt="login", max_age="0"))
        response.set_cookie(**provider_cookie(shown.request), value=value)
        return response

    async def words(self, shown: Page) -> str:
        return (await self._waited(shown))[1]

    async def confirm(self, shown: Page) -> None:
        assert shown.who is not None
        at, _ = await self._waited(shown)
        await self._confirm(shown.who.kid, at, waiting(shown)[0], shown.request.query_params)

    async def _waited(self, shown: Page) -> tuple[str, str]:
        assert shown.who is not None
        secret, sealed, _ = waiting(shown)
        return await self._unseal(shown.who.kid, _bound(secret, shown), sealed)

    def forget(self, shown: Page, response: Response) -> None:
        response.delete_cookie(**provider_cookie(shown.request))

    async def _person(self, kid: str) -> TokenRow | None:
        """The row in `tokens` of a person named by this provider; None for holders of a token."""
        look = self._storage.glance
        row = await anyio.to_thread.run_sync(look, lambda transaction: tokens.get_token(transaction, kid))
        return row if row is not None and row.created_by == self._by else None

    async def _seal_words(self, kid: str, bound: str, words: str) -> str:
        """Seal text for storage in the browser until this person comes back, `bound` to a session and study."""
        waiting = base64.urlsafe_b64encode(f"{self._clock()} {words}".encode()).decode().rstrip("=")
        return waiting + await self._seal(kid, bound, waiting)

    async def _unseal(self, kid: str, bound: str, sealed: str) -> tuple[str, str]:
        """Return the time of sealing and the sealed text; raise a `Refusal` if the seal is wrong or too old."""
        waiting, seal = sealed[:-64], sealed[-64:]
        if not hmac.compare_digest(seal.encode(), (await self._seal(kid, bound, waiting)).encode()):
            raise Refusal(
                "not-allowed", "this signature was not started here, or was started in another session: start again"
            )
        at, _, words = base64.urlsafe_b64decode(waiting + "==").decode().partition(" ")
        if hours_between(at, self._clock()) * 3600 > BEGUN:
            raise Refusal("not-allowed", f"this signature was started more than {BEGUN // 60} minutes ago: start again")
        return at, words

    async def _seal(self, kid: str, bound: str, waiting: str) -> str:
        """Compute a seal with a key that server processes know and browsers do not: the digest in the person's row."""
        row = await self._person(kid)
        if row is None:
            raise Refusal("not-allowed", f"{self.host} did not say who you are: start again")
        return _derived(row.digest, f"{bound} {waiting}")

    async def _confirm(self, kid: str, since: str, secret: str, answer: Mapping[str, str]) -> None:
        """Raise a `Refusal` unless the provider says that the person `kid` signed in there again after `since`."""
        found, claims = await self._named(secret, answer)
        if found != kid:
            raise Refusal(
                "not-allowed",
                f"another person signed in at {self.host}: sign in there with the account that you use here",
            )
        # The provider was asked for a new sign-in (`max_age=0`), but only `auth_time` proves that there was one.
        signed_in, asked = claims.get("auth_time"), datetime.fromisoformat(since).timestamp()
        if not isinstance(signed_in, int | float):
            words = "does not say when you signed in (no auth_time): ask the operator of this server"
            raise Refusal("not-allowed", f"{self.host} {words}")
        if signed_in < asked - LEEWAY:
            words = f"did not ask you to sign in again: you signed in {asked - signed_in:,.0f} seconds before"
            raise Refusal("not-allowed", f"{self.host} {words}. Sign out there and start again")
        await self._admit(kid, claims)

    async def _named(self, secret: str, answer: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
        """The person in the provider's answer to a browser with this secret: their key id, and all claims.

        The key id is a hash of issuer and subject, so it is the same at every sign-in.
        """
        # The state proves that this browser began the sign-in.
        if not secret or not hmac.compare_digest(answer.get("state", "").encode(), _derived(secret, "state").encode()):
            raise Refusal("not-allowed", "this sign-in was not started here, or too long ago: start again")
        if "code" not in answer:
            words = answer.get("error_description") or answer.get("error") or "no reason"
            raise Refusal("not-allowed", f"{self.host} did not sign you in: {words[:200]}")
        claims = await self._claims(secret, answer["code"])
        return hashlib.sha256(f"{self._settings.oidc_issuer} {claims['sub']}".encode()).hexdigest()[:16], claims

    async def _admit(self, kid: str, claims: Mapping[str, Any]) -> None:
        """Store a person with the role and name that the claims give."""
        role, study = self._role(claims)
        names = (str(one) for one in (claims.get(self._settings.oidc_name) or "", claims["sub"]))
        plain = next(
            (one for one in names if one.strip() and one.isprintable() and len(one) <= LONGEST_NAME), "somebody"
        )
        name = f"{plain} ({kid})"  # people choose their names, and addresses are reused: the kid is unique
        scope: dict[str, Any] = {"role": role, "name": name, "study": study, "agent": None}

        def work(transaction: Transaction) -> None:
            tokens.admit_person(transaction, kid, **scope, by=self._by, at=self._clock())

        await asyncio.wrap_future(self._storage.submit(work))

    def _role(self, claims: Mapping[str, Any]) -> tuple[Role, str | None]:
        """The role and study (None: all studies) in the first entry of `oidc_roles` whose value the claim contains."""
        claim = self._settings.oidc_claim
        found: Any = claims.get(claim)
        if found is None:  # a path, as in realm_access.roles
            found = claims
            for part in claim.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
        values = found if isinstance(found, list) else [found]
        for value, role, study in self._settings.provider_roles:
            if value in values:
                return Role(role), study
        words = f"{self.host} knows you, but its claim {claim!r} gives you no role here"
        raise Refusal("not-allowed", f"{words}: ask the operator of this server (--oidc-roles)")

    async def _claims(self, secret: str, code: str) -> Mapping[str, Any]:
        """Exchange a code for an ID token, and return the token's claims after checking them."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        known, client = await self._discovered(), self._settings.oidc_client_id
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": self._back}
        form |= {"code_verifier": _derived(secret, "verifier")}
        options: dict[str, Any] = {}
        if self._secret and "client_secret_basic" in known.get(
            "token_endpoint_auth_methods_supported", ["client_secret_basic"]
        ):
            # RFC 6749, 2.3.1: id and secret are form-encoded before they become Basic credentials.
            options["auth"] = (quote(client, safe=""), quote(self._secret, safe=""))
        else:
            form |= {"client_id": client} | ({"client_secret": self._secret} if self._secret else {})
        bought = await self._asked("POST", known["token_endpoint"], data=form, **options)
        # A key set may also have keys for encryption, which sign nothing.
        keys = [key for key in (await self._asked("GET", known["jwks_uri"])).get("keys", []) if key.get("use") != "enc"]
        expected: dict[str, Any] = {"iss": known["issuer"], "aud": client}
        try:
            token = jwt.decode(bought["id_token"], KeySet.import_key_set({"keys": keys}), algorithms=ALGORITHMS)
            claims = CodeIDToken(
                token.claims,
                token.header,
                {name: {"essential": True, "value": value} for name, value in expected.items()},
                {"nonce": _derived(secret, "nonce"), "client_id": client, "access_token": bought.get("access_token")},
            )
            claims.validate(leeway=LEEWAY)
            self._require_sensible(claims)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            logger.warning("an ID token was refused", error=str(error) or type(error).__name__)
            raise Refusal("not-allowed", f"{self.host} sent an ID token that is not valid: {error}"[:300]) from None
        return dict(claims)

    def _require_sensible(self, claims: Mapping[str, Any]) -> None:
        """Raise for bad claims that the library accepts: an empty subject, or a time of sign-in in the future."""
        subject, signed_in = claims.get("sub"), claims.get("auth_time")
        if not isinstance(subject, str) or not subject.strip():
            raise ValueError("its sub is empty")
        now = datetime.fromisoformat(self._clock()).timestamp()
        if isinstance(signed_in, int | float) and not signed_in <= now + LEEWAY:
            raise ValueError("its auth_time is in the future")

    async def _discovered(self) -> dict[str, Any]:
        issuer, (at, known) = self._settings.oidc_issuer, self._known
        if not known or monotonic() - at > KEPT:
            known = await self._asked("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
            wanted = ("authorization_endpoint", "token_endpoint", "jwks_uri")
            if known.get("issuer") != issuer or not all(isinstance(known.get(name), str) for name in wanted):
                logger.warning("not the issuer's discovery document", issuer=issuer, found=str(known.get("issuer")))
                raise Refusal("provider-unavailable", f"{self.host} does not describe itself as {issuer}")
            self._known = monotonic(), known
        return known

    async def _asked(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        try:
            async with self._few, asyncio.timeout(SECONDS), self._http.stream(method, url, **options) as answer:
                found = json.loads(await at_most(LARGEST, answer.aiter_raw()))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            logger.warning("the sign-in provider does not answer", url=url, error=str(error) or type(error).__name__)
            raise Refusal("provider-unavailable", f"{self.host} does not answer as it should: try again") from None
        if not answer.is_success or not isinstance(found, dict):
            words = str(found.get("error", "")) if isinstance(found, dict) else ""
            logger.warning("the sign-in provider refused", url=url, status=answer.status_code, error=words)
            if words == "invalid_grant":
                why = "it has been used, is too old, or belongs to another browser. Start again"
                raise Refusal("not-allowed", f"{self.host} rejects the code of this sign-in: {why}")
            raise Refusal("provider-unavailable", f"{self.host} refused: {answer.status_code} {words}"[:200].rstrip())
        return found


def _derived(secret: str, what: str) -> str:
    return hmac.new(secret.encode(), what.encode(), hashlib.sha256).hexdigest()


def _bound(secret: str, shown: Page) -> str:
    """What the sealed text in the browser is bound to, in addition to the person: cookie secret, session and study."""
    return f"{secret} {shown.credential} {shown.study}"


def provider_cookie(request: Request) -> dict[str, Any]:
    """Attributes of the cookie of a sign-in in progress; `samesite` is lax, for the way back from another site.

    The cookie's value is a secret, the sealed text, and the address to go to afterwards, separated by dots.
    """
    cookie = session_cookie(request)
    return cookie | {"key": cookie["key"].replace("session", "provider"), "samesite": "lax"}


def waiting(shown: Page) -> tuple[str, str, str]:
    """The parts of the cookie of a sign-in in progress: the secret, the sealed text, and the address to go to."""
    secret, _, rest = shown.request.cookies.get(provider_cookie(shown.request)["key"], "").partition(".")
    sealed, _, rest = rest.partition(".")
    return secret, sealed, unquote(rest)
