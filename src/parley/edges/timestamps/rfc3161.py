"""RFC 3161 time stamps of a log: an outside authority confirms when a record, and all before it, existed.

The authority stamps the text whose hash is the record's hash. So the stamp's imprint is that hash, and any program for
RFC 3161 can check the stamp (`docs/audit.md`). A stamp protects only if somebody other than the log's owner keeps
a copy of the stamp, which then reveals a log that was rewritten, or cut off before the record.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from parley.errors import BrokenChain, InvalidInput, needs
from parley.protocol import Record, Stamp
from parley.web.bodies import at_most

if TYPE_CHECKING:
    from rfc3161_client import TimeStampResponse

EXTRA = "timestamps"
AUTHORITY = "an RFC 3161 time stamp authority that answers"
SECONDS = 20.0  # timeout of a request to an authority
LARGEST = 64 * 1024  # bytes of an answer; 1 to 7 KiB are usual


async def ask_stamp(authority: str, record: Record) -> Stamp:
    """Have a record stamped by the authority at a URL (`https://...`, or `http://...`, since a stamp is no secret)."""
    with needs(EXTRA, "a time stamp"):
        import httpx2 as httpx
        from rfc3161_client import HashAlgorithm, TimestampRequestBuilder
    host = _host(authority)
    request = TimestampRequestBuilder().data(record.hashed).hash_algorithm(HashAlgorithm.SHA256).build()
    # The response is read raw, to limit its size: it must not be compressed.
    headers = {"Content-Type": "application/timestamp-query", "Accept-Encoding": "identity"}
    asked: dict[str, Any] = {"content": request.as_bytes(), "headers": headers}
    try:
        async with (
            asyncio.timeout(SECONDS),
            httpx.AsyncClient(timeout=SECONDS) as client,
            client.stream("POST", authority, **asked) as answer,
        ):
            content = await at_most(LARGEST, answer.aiter_raw())
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        words = f"no answer from {host}: {str(error) or type(error).__name__}"
        raise InvalidInput("authority", found=words, allowed=AUTHORITY) from None
    if not answer.is_success or len(content) > LARGEST:
        found = f"{answer.status_code} and {len(content)} bytes{' or more' * (len(content) > LARGEST)} from {host}"
        raise InvalidInput("authority", found=found, allowed=AUTHORITY)
    response = base64.b64encode(content).decode()
    stamp = Stamp(study=record.stream, sequence=record.sequence, head=record.hash, authority=host, response=response)
    # The nonce rules out an old response that somebody replays.
    if read_response(stamp).tst_info.nonce != request.nonce:
        raise InvalidInput("authority", found=f"an answer from {host} to another request", allowed=AUTHORITY)
    return stamp


def _host(authority: str) -> str:
    """The host of an authority's address. Only the host is stored, since the address may contain a password."""
    parts = urlsplit(authority)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidInput("authority", found=repr(authority), allowed="https://HOST/PATH or http://HOST/PATH")
    return parts.hostname


def read_response(stamp: Stamp) -> TimeStampResponse:
    """Decode the authority's response, and check that it is about the stamp's `head`; does not check the signature."""
    with needs(EXTRA, "a time stamp"):
        from rfc3161_client import decode_timestamp_response
    try:
        response = decode_timestamp_response(base64.b64decode(stamp.response, validate=True))
        imprint = response.tst_info.message_imprint.message.hex() if response.status == 0 else ""
    except (ValueError, binascii.Error) as error:
        raise InvalidInput("time stamp", found=f"a response that is not RFC 3161: {error}", allowed=AUTHORITY) from None
    if response.status != 0:
        said = "; ".join(response.status_string) or f"status {response.status}"
        raise InvalidInput("time stamp", found=f"a refusal of {stamp.authority}: {said}", allowed="a granted one")
    if imprint != stamp.head:
        raise InvalidInput("time stamp", found=f"one of {imprint:.12}...", allowed=f"of {stamp.head:.12}...")
    return response


def judge(certificates: Path) -> Callable[[Stamp], datetime]:
    """Make a function that checks a stamp and returns the time at which it was made.

    The function raises `BrokenChain` unless the stamp is signed with one of the `certificates` (a PEM file), or with a
    certificate that they issued.
    """
    with needs(EXTRA, "checking time stamps"):
        from cryptography.x509 import load_pem_x509_certificates
        from rfc3161_client import VerificationError, VerifierBuilder
    builder = VerifierBuilder()
    try:
        for certificate in dict.fromkeys(load_pem_x509_certificates(certificates.read_bytes())):
            builder = builder.add_root_certificate(certificate)
    except ValueError:
        raise InvalidInput("certificates", found=f"none in {certificates}", allowed="a PEM file") from None

    def made_at(stamp: Stamp) -> datetime:
        try:
            response = read_response(stamp)
            builder.build().verify(response, bytes.fromhex(stamp.head))
        except (InvalidInput, VerificationError) as error:
            words = str(error).partition(": ErrorStack")[0]  # OpenSSL's error stack does not help users
            raise BrokenChain(
                f"the time stamp of record {stamp.sequence} does not hold with {certificates}: {words}"
            ) from None
        return response.tst_info.gen_time

    return made_at
