"""Stored webhooks: their addresses, their positions in the logs, and when the next attempt is due.

A webhook has a cursor in the log of every study. The messages to send follow from log and cursor, so a crash neither
loses nor invents any. The secret is stored in plain text, since it is needed to sign. It is displayed once, and is in
no list, log, export or backup.
"""

import base64
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Row, delete, func, insert, literal, select, update

from parley.coordinator.clock import later
from parley.coordinator.problems import Refusal
from parley.coordinator.record import studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.tables import studies as studies_table
from parley.coordinator.record.writer import append_server
from parley.edges.webhooks.hosts import AllowedHosts
from parley.edges.webhooks.messages import Telling, WebhookLine
from parley.edges.webhooks.tables import late_reports, webhook_cursors, webhooks
from parley.protocol.codec import canonical, read_json

MOST = 20  # webhooks of a server
LONGEST_URL = 2000
LEASE = 30.0  # seconds for which a process sends to a webhook alone; longer than any attempt takes
# Seconds to wait after each failed attempt, as Standard Webhooks proposes. The waits add up to more than three days; if
# the attempt after the last wait fails too, the webhook is disabled.
RETRIES = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
USUAL = tuple(kind for kind in Telling if not kind.hidden)  # what every viewer may know


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """A webhook's position in a study: the last record and the last late report that it received."""

    webhook: str
    study: str
    sequence: int = 0  # of the log's last record that it received
    late: int = 0  # number of the last late report that it received


def require_allowed(url: str, allowed: AllowedHosts) -> tuple[str, str, int]:
    """Scheme, host and port of a URL. Raises a `Refusal` if the operator does not allow it; resolves no names."""
    if not (url.isascii() and url.isprintable()) or any(sign in url for sign in ' \\"<>') or len(url) > LONGEST_URL:
        raise Refusal(
            "invalid-request",
            f"url: found other characters, or too many; allowed: ASCII, up to {LONGEST_URL} characters",
        )
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        raise Refusal("invalid-request", "url: found one that cannot be read; allowed: https://HOST/PATH") from None
    if parts.scheme not in ("https", "http") or not host or parts.username is not None or parts.fragment:
        words = "https://HOST/PATH without a user (http:// only to loopback)"
        raise Refusal("invalid-request", f"url: found another form; allowed: {words}")
    if not allowed.names_host(host):
        listed = ", ".join((*allowed.names, *map(str, allowed.networks))) or "nothing"
        words = f"url: found the host {host}; allowed: {listed}. The operator allows hosts with --webhook-allow"
        raise Refusal("invalid-request", words)
    return parts.scheme, host, port or (443 if parts.scheme == "https" else 80)


def register(
    transaction: Transaction, *, url: str, events: Sequence[Telling], study: str | None, by: str, at: str
) -> tuple[str, Row[*tuple[Any, ...]]]:
    """Add a webhook for events from now on; returns its secret and its row.

    Nothing else ever returns the secret to a user.
    """
    if study is not None:
        studies.require(transaction, study)
    webhook, secret = f"wh_{secrets.token_hex(4)}", "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    chosen = sorted(set(events or USUAL))
    # The address may be a secret of its receiver: the log has only the host.
    entry = {"webhook": webhook, "host": urlsplit(url).hostname, "events": chosen, "study": study}
    append_server(transaction, "webhook-added", entry, actor=by, at=at)
    if len(transaction.execute(select(webhooks.c.id)).all()) >= MOST:
        raise Refusal("already-exists", f"there are {MOST} webhooks: remove one first")
    row: dict[str, Any] = {"id": webhook, "url": url, "secret": secret, "events": canonical(chosen), "study": study}
    row |= {"created_at": at, "created_by": by, "due_at": "", "attempts": 0, "disabled": False, "error": ""}
    transaction.execute(insert(webhooks).values(row))
    noticed = select(func.coalesce(func.max(late_reports.c.number), 0))
    now = noticed.where(late_reports.c.study == studies_table.c.id).scalar_subquery()
    there = select(literal(webhook), studies_table.c.id, studies_table.c.sequence, now)
    there = there if study is None else there.where(studies_table.c.id == study)
    transaction.execute(insert(webhook_cursors).from_select(["webhook", "study", "sequence", "late"], there))
    return secret, get(transaction, webhook)


def get(transaction: Transaction, webhook: str) -> Row[*tuple[Any, ...]]:
    """The row of a webhook; raises a `Refusal` if it is unknown."""
    row = transaction.execute(select(webhooks).where(webhooks.c.id == webhook)).one_or_none()
    if row is None:
        raise Refusal("not-found", f"no webhook {webhook!r}")
    return row


def every(transaction: Transaction) -> Sequence[Row[*tuple[Any, ...]]]:
    """All webhooks, oldest first."""
    return transaction.execute(select(webhooks).order_by(webhooks.c.created_at, webhooks.c.id)).all()


def line(row: Row[*tuple[Any, ...]]) -> dict[str, Any]:
    """The values of a webhook's `WebhookLine`, which has no secret."""
    shown = {name: getattr(row, name) for name in WebhookLine.__struct_fields__ if name not in ("events", "state")}
    state = "disabled" if row.disabled else "failing" if row.attempts else "live"
    return shown | {"events": events_of(row), "state": state}


def events_of(row: Row[*tuple[Any, ...]]) -> list[Telling]:
    """The kinds of messages that a webhook receives."""
    return [Telling(kind) for kind in read_json(row.events)]


def remove(transaction: Transaction, webhook: str, *, by: str, at: str) -> Row[*tuple[Any, ...]]:
    """Remove a webhook and delete its secret."""
    row = get(transaction, webhook)
    entry = {"webhook": webhook, "host": urlsplit(row.url).hostname}
    append_server(transaction, "webhook-removed", entry, actor=by, at=at)
    transaction.execute(delete(webhook_cursors).where(webhook_cursors.c.webhook == webhook))
    transaction.execute(delete(webhooks).where(webhooks.c.id == webhook))
    return row


def is_due(row: Row[*tuple[Any, ...]], now: str) -> bool:
    """Whether an attempt is due now. A due time too far ahead is ignored: the clock that wrote it was wrong."""
    return not row.disabled and not now < row.due_at <= later(now, 2 * RETRIES[-1] / 3600)


def claim(transaction: Transaction, row: Row[*tuple[Any, ...]], now: str) -> bool:
    """Reserve a webhook for this process for `LEASE` seconds; returns False if another process was faster."""
    # Compare and swap: the update succeeds only if the due time is still the one that was read.
    mine = webhooks.c.id == row.id, webhooks.c.due_at == row.due_at, webhooks.c.disabled.is_(False)
    return transaction.execute(update(webhooks).where(*mine).values(due_at=later(now, LEASE / 3600))).rowcount == 1


def cursors(transaction: Transaction, row: Row[*tuple[Any, ...]]) -> list[tuple[Cursor, int]]:
    """A webhook's position in each of its studies, and the sequence number of the last record of the study's log."""
    place = webhook_cursors.c
    # An outer join: a study created after the webhook has no cursor yet, so its messages start with its first record.
    both = (place.study == studies_table.c.id) & (place.webhook == row.id)
    where = studies_table.outerjoin(webhook_cursors, both)
    query = select(studies_table.c.id, studies_table.c.sequence, place.sequence, place.late).select_from(where)
    query = query if row.study is None else query.where(studies_table.c.id == row.study)
    found = transaction.execute(query.order_by(studies_table.c.id))
    return [(Cursor(webhook=row.id, study=one[0], sequence=one[2] or 0, late=one[3] or 0), one[1]) for one in found]


def settle(transaction: Transaction, webhook: str, to: Cursor | None, *, error: str, gone: bool, at: str) -> bool:
    """Record the result of an attempt: the cursor moves to the position `to`, or a retry becomes due.

    An empty `error` means success. If the receiver is `gone` or all retries failed, the webhook is disabled. Returns
    whether this attempt disabled it.
    """
    row = transaction.execute(select(webhooks).where(webhooks.c.id == webhook).with_for_update()).one_or_none()
    if row is None:  # removed meanwhile
        return False
    here = update(webhooks).where(webhooks.c.id == webhook)
    if not error:
        healthy = {"due_at": "", "attempts": 0, "failing_since": None, "disabled": False, "error": ""}
        transaction.execute(here.values(**healthy, delivered_at=at))
        if to is not None:
            _move(transaction, to)
        return False
    over = gone or row.attempts >= len(RETRIES)
    due = row.due_at if over else later(at, RETRIES[row.attempts] / 3600)
    since = row.failing_since or at
    transaction.execute(
        here.values(attempts=row.attempts + 1, failing_since=since, disabled=over, error=error, due_at=due)
    )
    return over and not row.disabled


def _move(transaction: Transaction, to: Cursor) -> None:
    here = webhook_cursors.c.webhook == to.webhook, webhook_cursors.c.study == to.study
    place = {"sequence": to.sequence, "late": to.late}
    if not transaction.execute(update(webhook_cursors).where(*here).values(place)).rowcount:
        transaction.execute(insert(webhook_cursors).values(webhook=to.webhook, study=to.study, **place))
