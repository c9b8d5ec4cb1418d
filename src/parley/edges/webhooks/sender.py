"""Sends webhooks as Standard Webhooks specifies: signed, in order, at least once, in the background.

The messages to send follow from the log and each webhook's cursor (`subscriptions`, `notices`). No transaction is open
while a message is sent. A host's name is resolved once, and the sender connects to the addresses that it checked, so
that a second lookup cannot lead elsewhere. The sender follows no redirects, uses no proxies, and reads only the status
of a response.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import socket
import ssl
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import anyio.to_thread
import httpx2 as httpx
from prometheus_client import Counter
from sqlalchemy import Row

from parley import __version__
from parley.coordinator.clock import hours_between
from parley.coordinator.http.context import Context, Service
from parley.coordinator.observability import guarded, logger
from parley.coordinator.problems import Refusal
from parley.coordinator.record import Transaction, studies
from parley.coordinator.record.studies import StudyRow
from parley.edges.webhooks import notices
from parley.edges.webhooks import subscriptions as webhooks
from parley.edges.webhooks.hosts import Address, WebhookSettings
from parley.edges.webhooks.messages import Telling
from parley.edges.webhooks.notices import Notice
from parley.edges.webhooks.subscriptions import Cursor
from parley.protocol import Stage
from parley.protocol.codec import canonical

T = TypeVar("T")
MOMENT = 2.0  # seconds between checks for something to send, if no commit triggers an earlier check
PAUSE = 0.1  # shortest time between checks, in seconds
LATE_LOOK = 60.0  # seconds between checks for late sites
CONNECT, WHOLE = 5.0, 20.0  # timeouts of an attempt in seconds: to connect, and in total
ADDRESSES = 3  # most addresses of a host that are tried


class Attempt(NamedTuple):
    """The result of one attempt to deliver a message."""

    error: str = ""  # in a few words; empty if the message was delivered
    gone: bool = False  # whether the receiver answered 410 Gone: it wants no more messages


def signature(secret: str, message: str, timestamp: int, body: str) -> str:
    """The signature of Standard Webhooks: over message id, time and body, with the bytes of the secret as the key.

    >>> signature("whsec_" + base64.b64encode(b"0" * 24).decode(), "msg_1", 1_700_000_000, "{}")
    'v1,GyD6JYhOMw54HxxeJFT2MBccaZQKsuPluglVfnm25Bo='
    """
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message}.{timestamp}.{body}".encode()
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class Sender(Service):
    """Sends every webhook the messages that it has not received. Runs on the event loop, with one task per webhook."""

    def __init__(self, context: Context) -> None:
        self._storage, self._clock, settings = context.storage, context.session_clock, context.settings
        self._allowed, self._pages = settings.of(WebhookSettings).allowed_hosts, settings.public_url
        self._attempts = Counter(
            "parley_webhooks_total",
            "Attempts to notify a webhook, by outcome: delivered or failed.",
            ["outcome"],
            registry=context.metrics.registry,
        )
        self._running: dict[str, asyncio.Task[None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._seen: dict[tuple[str, str], int] = {}  # (webhook, study) -> sequence up to which there is nothing to send
        self._trust = cache(ssl.create_default_context)  # the system's authorities, loaded once
        self._looked = ""  # time of the last check for late sites
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._any = False  # whether there were webhooks at the last check

    async def start(self) -> None:
        """Start sending, first the messages that were not delivered before the last stop."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())

    def committed(self, row: StudyRow) -> None:  # noqa: ARG002
        """Trigger a check for messages to send, if there are webhooks. May be called in any thread."""
        if self._loop is not None and self._any and not self._woken.is_set():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def _run(self) -> None:
        while True:
            await guarded(self._look, "cannot look for webhooks to send")
            # There may be hundreds of commits a second: pause, so that not every commit causes a check.
            await asyncio.sleep(min(PAUSE, MOMENT))
            with suppress(TimeoutError):
                async with asyncio.timeout(MOMENT):
                    await self._woken.wait()
            self._woken.clear()

    async def stop(self) -> None:
        """Stop sending. The next server to start repeats the messages that were being sent."""
        tasks = [*filter(None, [self._task]), *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        return await anyio.to_thread.run_sync(self._storage.read, work)

    async def _change(self, work: Callable[[Transaction], T]) -> T:
        return await asyncio.wrap_future(self._storage.submit(work))

    async def _look(self) -> None:
        now = self._clock()
        found = await self._read(webhooks.every)
        self._any = bool(found)
        late = any(Telling.LATE in webhooks.events_of(row) for row in found if not row.disabled)
        if late and (not self._looked or 3600 * hours_between(self._looked, now) >= LATE_LOOK):
            self._looked = now
            await self._note_late(now)
        for row in found:
            task = self._running.get(row.id)
            if not webhooks.is_due(row, now):
                continue
            if task is not None and not task.done():
                # The task may have read the log before the commit that triggered this check: check again.
                self._woken.set()
            else:
                work = partial(self._tell, row)
                self._running[row.id] = asyncio.create_task(guarded(work, "cannot send a webhook"))

    async def _note_late(self, now: str) -> None:
        def look(transaction: Transaction) -> list[str]:
            running = studies.find(transaction, stage=Stage.RUNNING, limit=None)[0]
            return [row.id for row in running if notices.late_agents(transaction, row, now)]

        for study in await self._read(look):
            await self._change(partial(notices.note_late, study=study, at=now))

    async def _tell(self, row: Row[*tuple[Any, ...]]) -> None:
        """Send one webhook all messages that are due, in order, until there are none or an attempt fails."""
        while (following := await self._read(partial(self._following, row=row))) is not None:
            cursor, notice = following
            # If this is the only process on the database, nobody else sends; a claim would only delay us after a crash.
            claim = partial(webhooks.claim, row=row, now=self._clock())
            if not self._storage.exclusive and not await self._change(claim):
                return
            # The tests kill the process between these steps: a message may then be repeated, but not lost.
            sys.audit("parley.reached", "webhook-due")
            made = await self._attempt(row, notice.message_id(row.id), notice.body(self._pages))
            sys.audit("parley.reached", "webhook-sent")
            to = Cursor(webhook=row.id, study=cursor.study, sequence=notice.sequence, late=notice.late)
            if await self._settle(row, to, made):
                return
            row = await self._read(partial(webhooks.get, webhook=row.id))

    def _following(self, transaction: Transaction, row: Row[*tuple[Any, ...]]) -> tuple[Cursor, Notice] | None:
        """The first message that a webhook has not received, with its cursor in the study; None if there is none."""
        wanted = webhooks.events_of(row)
        for cursor, last in webhooks.cursors(transaction, row):
            after = max(cursor.sequence, self._seen.get((row.id, cursor.study), 0))
            notice = notices.next_notice(transaction, cursor.study, wanted, sequence=after, late=cursor.late)
            if notice is not None:
                return cursor, notice
            self._seen[row.id, cursor.study] = last
        return None

    async def test(self, row: Row[*tuple[Any, ...]]) -> str:
        """Send a webhook a test message now; returns the error, or "" if the message arrived."""
        body = canonical({"type": "webhook.test", "timestamp": self._clock(), "data": {"webhook": row.id}})
        made = await self._attempt(row, f"msg_{secrets.token_hex(16)}", body)
        if not made.error:
            await self._settle(row, None, made)
        return made.error

    async def _settle(self, row: Row[*tuple[Any, ...]], to: Cursor | None, made: Attempt) -> bool:
        """Record the result of an attempt; returns whether it failed."""
        error, gone = made
        over = await self._change(
            partial(webhooks.settle, webhook=row.id, to=to, error=error, gone=gone, at=self._clock())
        )
        self._attempts.labels("failed" if error else "delivered").inc()
        if error:
            logger.warning("a webhook was disabled" if over else "a webhook failed", webhook=row.id, error=error)
        return bool(error)

    async def check(self, url: str) -> tuple[str, str, list[Address]]:
        """Scheme, host with port, and addresses of a URL; raises a `Refusal` if any of its addresses is not allowed."""
        scheme, host, port = webhooks.require_allowed(url, self._allowed)
        try:
            loop = asyncio.get_running_loop()
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Refusal(
                "invalid-request", f"url: found {host}, which has no address; allowed: one that has"
            ) from None
        # `partition` drops the scope of a link-local IPv6 address.
        addresses = list(dict.fromkeys(ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
        for address in addresses:
            if not self._allowed.reaches(address):
                words = f"url: found {host}, which is at the private address {address}"
                hint = (
                    "allowed: public ones, and what the operator names with --webhook-allow (an address or a network)"
                )
                raise Refusal("invalid-request", f"{words}; {hint}")
            if scheme == "http" and not address.is_loopback:
                raise Refusal("invalid-request", f"url: found http:// to {host}; allowed: https://")
        return scheme, f"[{host}]:{port}" if ":" in host else f"{host}:{port}", addresses[:ADDRESSES]

    async def _attempt(self, row: Row[*tuple[Any, ...]], message: str, body: str) -> Attempt:
        """Send a message once."""
        timestamp = int(time.time())  # by the system's clock, since receivers compare it with their own
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"parley/{__version__}",
            "webhook-id": message,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(row.secret, message, timestamp, body),
        }
        try:
            async with asyncio.timeout(WHOLE):
                return await self._post(row.url, headers, body)
        except TimeoutError:
            return Attempt(f"no answer within {WHOLE:g} s")
        except Refusal as refusal:
            return Attempt(refusal.detail)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Attempt((str(error) or type(error).__name__)[:300])

    async def _post(self, url: str, headers: dict[str, str], body: str) -> Attempt:
        scheme, host, addresses = await self.check(url)
        name, _, port = host.rpartition(":")
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        limits = httpx.Timeout(WHOLE, connect=CONNECT)
        trust = await anyio.to_thread.run_sync(self._trust)
        async with httpx.AsyncClient(verify=trust, trust_env=False, follow_redirects=False, timeout=limits) as client:
            for place, address in enumerate(addresses, start=1):
                # Connect to the checked address, but give the host's name for routing and for the certificate.
                number = f"[{address}]" if address.version == 6 else str(address)
                request = client.build_request(
                    "POST",
                    f"{scheme}://{number}:{port}{path}",
                    content=body.encode(),
                    headers={"Host": parts.netloc, **headers},
                    extensions={"sni_hostname": name.strip("[]"), "timeout": limits.as_dict()},
                )
                try:
                    answer = await client.send(request, stream=True)
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if place == len(addresses):
                        raise
                    continue
                await answer.aclose()
                if answer.is_success:
                    return Attempt()
                gone = answer.status_code == HTTPStatus.GONE
                return Attempt(f"{answer.status_code} {answer.reason_phrase}".strip(), gone)
        return Attempt("no address")
