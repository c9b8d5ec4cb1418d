"""The page of a study's answer: arms, certificate, estimates, verification, signatures, and downloads."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import anyio.to_thread
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import Findings, Sensitivities
from parley.coordinator.http.routes import studies
from parley.coordinator.http.routes.administration import list_corrections, list_signatures
from parley.coordinator.problems import Refusal
from parley.dashboard.charts import map_chart, standing_chart
from parley.dashboard.outcomes import asked_outcomes, outcome_panels, outcomes_csv
from parley.dashboard.pages.study import agents_on_page, heading, verified
from parley.dashboard.session import Page, page
from parley.dashboard.sign_in import provider_of
from parley.errors import InvalidInput
from parley.estimates import Change
from parley.experiments.report_kit.forest import forest_chart
from parley.protocol import Certificate
from parley.protocol.acts import ConfirmedSignBody
from parley.protocol.codec import read_json
from parley.text.formatting import csv_text, estimate_text, findings_csv, ranged, status_text, unit_of
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, gettext

UNSIGNED = ("not-allowed", "invalid-request", "provider-unavailable")  # refusals of a signature that the page reports
# Columns of the CSV file.
HEAD = (
    "agent", "arm", "status", "dropped_in", "draws", "mixed_mean", "score", "line", "gap_at_least",
    "mean_low", "mean_high", "to_leader", "to_leader_low", "to_leader_high",
    "to_control", "to_control_low", "to_control_high",
)  # fmt: skip


async def certificate_of(shown: Page) -> dict[str, Any] | None:
    """The certificate, with its messages translatable; None if there is none yet or the reader may not see it.

    A stored certificate omits empty keys. In the result they are None: otherwise a template that names such a key would
    fail, and only for the studies that lack the key.
    """
    try:
        text = await shown.call(studies.get_certificate)
    except Refusal as refusal:
        if refusal.status in (403, 404):
            return None
        raise
    found: dict[str, Any] = await anyio.to_thread.run_sync(read_json, text)
    messages = found.get("messages", {})
    reread = found.get("with_corrections") or {}
    for part, key in ((found, "guarantee"), (found, "drift"), (found["evidence"], "score"), (reread, "meaning")):
        if part.get(key) in messages:
            part[key] = Translatable.from_json(messages[part[key]])
    found["warnings"] = [
        Translatable.from_json(messages[one]) if one in messages else one for one in found.get("warnings", ())
    ]
    return dict.fromkeys(Certificate.known_keys()) | found


def _cells(evidence: Mapping[str, Any], agent: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every arm of an agent, for the page's table, the CSV file and the report."""
    found = evidence["agents"][agent]
    for place, arm in enumerate(found["arms"]):
        yield {
            "agent": found["agent"],
            "arm": arm["arm"],
            "status": arm["status"],
            "dropped_in": arm["dropped_in"] or None,
            "draws": arm["draws"],
            "mixed_mean": arm["mixed_mean"],
            "score": arm["score"],
            "line": evidence["line"],
            "gap_at_least": arm.get("gap_at_least") if arm["status"] == ArmStatus.RULED_OUT else None,
            **_estimated(evidence, agent, place),
        }


def _estimated(evidence: Mapping[str, Any], agent: int, arm: int) -> dict[str, Any]:
    """An arm's estimates with their joint intervals; values that the certificate does not have are None."""
    found = evidence["estimates"]["agents"][agent]["arms"][arm] if "estimates" in evidence else {}
    kinds = {name: found.get(name, {}) for name in ("mean", "to_leader", "to_control")}
    ends = {f"{name}_{end}": kind.get(end) for name, kind in kinds.items() for end in ("low", "high")}
    return ends | {name: kinds[name].get("estimate") for name in ("to_leader", "to_control")}


def answer_of(certificate: Mapping[str, Any], agent: int, *, by_arm: bool) -> dict[str, Any]:
    """One agent's answer, with a row per arm if `by_arm`.

    `margin` is the smallest proven gap to a dropped arm; None if no arm was dropped or one has no such gap.
    """
    cells = list(_cells(certificate["evidence"], agent))
    bounds = [cell["gap_at_least"] for cell in cells if cell["dropped_in"]]
    name = certificate["evidence"]["agents"][agent]["agent"]
    known = bounds and all(bound is not None for bound in bounds)
    end = (certificate["ends"] or {}).get(name)
    further = {question for one in certificate["map"] or () for question in one["questions"]}
    return {
        "agent": name,
        "in_map": name in further - {one["agent"] for one in certificate["map"] or ()},
        "arms": certificate["answers"][name],
        "cells": cells if by_arm else [],
        "margin": min(bounds) if known else None,
        "end": end,
        "answered": certificate["complete"] if end is None else OutcomeStatus(end).answered,
    }


def reread_of(found: Mapping[str, Any], agent: int) -> dict[str, Any]:
    """One agent's answer and arms as they would be with all corrections applied."""
    read = found["with_corrections"]
    name = read["evidence"]["agents"][agent]["agent"]
    return {
        "agent": name,
        "would_change": read["would_change"][name],
        "arms": read["answers"][name],
        "cells": list(_cells(read["evidence"], agent)),
    }


def other_weights_of(found: Sensitivities | None) -> dict[str, Any]:
    """The weights for which each answer stays the same, with a chart; both values are None if `found` has no agents."""
    if found is None or not found.agents:
        return {"sensitivity": None, "standings": None}
    shown = found.to_json()
    values, stated = [step["value"] for step in shown["agents"][0]["steps"]], shown["agents"][0]["stated"]
    # The page's slider of weights starts at the step nearest to the stated weights.
    start = min(range(len(values)), key=lambda place: abs(values[place] - stated))
    label = gettext("The weights for which each answer holds; the table below lists every step")
    return {"sensitivity": shown | {"start": start}, "standings": standing_chart(shown, label)}


def map_of(certificate: Mapping[str, Any] | None) -> Markup | None:
    """Draw which answer holds at which weights; None if the study states no doubt about its weights."""
    found = certificate["map"] if certificate else None
    label = gettext("The weights for which each answer holds; the list below says the same in words")
    return map_chart(found, label) if found else None


async def answer_page(shown: Page, *, problem: str = "", code: int = 200) -> Response:
    """The page of the answer so far, with a verification on request; `problem` is why nothing was signed."""
    head = await heading(shown)
    names = head["status"].agent_names
    pages = agents_on_page(shown, names)
    certificate, verification = await certificate_of(shown), await verified(shown)
    some = range(pages.first, pages.last)
    found = None if head["blinded"] else await found_so_far(shown, pages.first, pages.size)
    sensitivity = await shown.call(studies.get_sensitivity, pages.query) if found else None
    corrected = {} if head["blinded"] else certificate or (await shown.call(list_corrections)).to_json()

    def made() -> dict[str, Any]:
        asking = [agent for agent in some if names[agent] not in head["status"].settings["draws_only"]]
        answers = [answer_of(certificate, agent, by_arm=True) for agent in asking] if certificate else []
        reread = [reread_of(corrected, agent) for agent in asking if corrected.get("corrections")]
        panels = with_panels(found, head["status"].settings["tolerance"])
        known = {"answers": answers, "found": panels, "reread": reread, **other_weights_of(sensitivity)}
        return known | {"outcomes": outcome_panels(found), "map_chart": map_of(certificate)}

    typed = {key: shown.form.get(key, "") for key in ("name", "meaning")}
    signed: dict[str, Any] = {
        "signatures": (await shown.call(list_signatures)).signatures,
        "signing": typed,
        "signer": await _signer(shown),
        "problem": problem,
    }
    shared: dict[str, Any] = {"pages": pages, "certificate": certificate, "corrected": corrected, "made": made}
    return await shown.show(
        "answer.html", tab="Answer", code=code, verification=verification, **head, **shared, **signed
    )


async def _signer(shown: Page) -> str:
    """Host of the provider through which the reader signed in; "" for holders of a token."""
    provider = provider_of(shown)
    assert shown.who is not None
    return provider.host if provider and await provider.knows(shown.who.kid) else ""


async def sign(shown: Page) -> Response:
    """Sign the study; readers who use a sign-in provider must sign in there again first. Refusals are displayed."""
    body = {key: shown.form.get(key, "").strip() for key in ("name", "meaning", "token")}
    try:
        if await _signer(shown):
            return await _sign_in_anew(shown, body)
        await shown.call("sign_study", body=body)
    except Refusal as refusal:
        if refusal.slug not in UNSIGNED:
            raise
        return await answer_page(shown, problem=refusal.detail, code=refusal.status)
    return _to_signatures(shown)


async def _sign_in_anew(shown: Page, body: Mapping[str, str]) -> Response:
    """Send the browser to the sign-in provider; the text to be signed stays in the browser meanwhile."""
    provider = provider_of(shown)
    assert provider is not None
    assert shown.who is not None
    try:
        words = ConfirmedSignBody.from_json({**body, "token": "", "kid": shown.who.kid}).text
    except InvalidInput as error:
        raise Refusal("invalid-request", str(error)[:400]) from None
    return await provider.prove(shown, words, f"/studies/{quote(shown.study)}/signed")


async def signed_in_anew(shown: Page) -> Response:
    """Sign the text that the browser stored, if the same reader has signed in at the provider again."""
    provider = provider_of(shown)
    if provider is None or shown.who is None:
        return _to_signatures(shown)
    try:
        body = ConfirmedSignBody.read(await provider.words(shown))
        # If the signature is refused, the page fills its form with these fields again.
        shown = replace(shown, form={"name": body.name, "meaning": body.meaning})
        await provider.confirm(shown)
        await shown.call("sign_study", body=body)
        response = _to_signatures(shown)
    except Refusal as refusal:
        if refusal.slug not in UNSIGNED:
            raise
        response = await answer_page(
            shown, problem=Translatable("nothing was signed: ") + refusal.detail, code=refusal.status
        )
    provider.forget(shown, response)
    return response


def _to_signatures(shown: Page) -> Response:
    return RedirectResponse(f"/studies/{quote(shown.study, safe='')}/answer#signatures-title", status_code=303)


async def answer_json(shown: Page) -> Response:
    """Download the certificate as the API returns it, byte for byte."""
    text = await shown.call(studies.get_certificate)
    content = await shown.draw(text.encode)
    return attached(shown, content, "application/json", "answer.json")


def answer_csv(certificate: Mapping[str, Any]) -> str:
    """Format the answer as CSV, one line per agent and arm."""
    evidence, asking = certificate["evidence"], certificate["answers"]
    places = (place for place, found in enumerate(evidence["agents"]) if found["agent"] in asking)
    return csv_text(HEAD, (cell for agent in places for cell in _cells(evidence, agent)))


async def answer_table(shown: Page) -> Response:
    """Download the answer as CSV."""
    text = await shown.call(studies.get_certificate)
    content = await shown.draw(lambda: answer_csv(read_json(text)).encode())
    return attached(shown, content, "text/csv; charset=utf-8", "answer.csv")


AT_ONCE = 500  # agents per request when a file with all agents is made


async def found_so_far(shown: Page, first: int, columns: int) -> dict[str, Any] | None:
    """The findings of `columns` agents from index `first` on; None before the first decided phase."""
    found = await shown.call(studies.get_findings, {"first": first, "columns": columns})
    # Off the event loop, since there may be thousands of cells.
    return await anyio.to_thread.run_sync(found.to_json) if found.phase else None


def with_panels(found: Mapping[str, Any] | None, tolerance: float) -> dict[str, Any] | None:
    """Add a panel per agent to the findings; slow for many agents."""
    if found is None:
        return None
    asking = (agent for agent in found["agents"] if agent["end"] != OutcomeStatus.UNASKED)
    change = found["change"]
    if change is not None:  # the API's sentence is plain text: rebuild it as a message that can be translated
        change = change | {"words": Change(**{key: change[key] for key in ("p", "agent", "arm", "other")}).words}
    return {**found, "change": change, "panels": [_panel(agent, found, tolerance) for agent in asking]}


def _panel(agent: Mapping[str, Any], found: Mapping[str, Any], tolerance: float) -> dict[str, Any]:
    rates, control = found["rates"], found["control"]
    kinds = {"to_leader": agent["leader"]} | ({"to_control": control} if control else {"mean": None})
    return {
        "agent": agent["agent"],
        "leader": agent["leader"],
        "answered": OutcomeStatus(agent["end"]).answered,
        "end": OutcomeStatus(agent["end"]).description,
        "chosen": [arm["arm"] for arm in agent["arms"] if arm["status"] == ArmStatus.CHOSEN],
        "pictures": [_picture(agent, kind, to, rates=rates, tolerance=tolerance) for kind, to in kinds.items()],
        "arms": [
            {"arm": arm["arm"], "status": status_text(arm), "draws": arm["draws"]}
            | {kind: _cell(arm[kind], unit_of(kind, rates=rates)) for kind in ("mean", "to_leader", "to_control")}
            for arm in agent["arms"]
        ],
    }


def _picture(agent: Mapping[str, Any], kind: str, to: str | None, *, rates: bool, tolerance: float) -> Markup:
    what = gettext("Mixed means") if to is None else gettext("Differences from %(arm)s", arm=to)
    label = gettext(
        "%(what)s for %(agent)s with simultaneous intervals; the numbers are below",
        what=what,
        agent=agent["agent"],
    )
    return forest_chart(agent["arms"], kind, label, to=to, rates=rates, tolerance=tolerance)


def _cell(found: Mapping[str, float | None] | None, unit: str) -> dict[str, str]:
    """Format an estimate with its joint interval, which is the one to report, and its usual fixed-sample interval."""
    usual = found or {}
    shown = ranged(usual.get("estimate"), usual.get("fixed_low"), usual.get("fixed_high"), unit=unit)
    return {"joint": estimate_text(found, unit=unit), "usual": shown.partition("(")[2].rstrip(")")}


def attached(shown: Page, content: bytes, kind: str, name: str) -> Response:
    """The response for a download, whose file is named after the study."""
    disposition = f'attachment; filename="{shown.study}-{name}"'
    return Response(content, media_type=kind, headers={"Content-Disposition": disposition})


async def _everybody(shown: Page) -> dict[str, Any]:
    """The findings of all agents that ask a question, fetched in parts and joined."""
    parts, place = list[Findings](), 0
    while not parts or place < parts[0].agent_count:
        parts.append(await shown.call(studies.get_findings, {"first": place, "columns": AT_ONCE}))
        place += len(parts[-1].agents)

    def joined() -> dict[str, Any]:
        every = [part.to_json() for part in parts]
        outcomes = [
            one | {"agents": [agent for part in every for agent in part["outcomes"][place]["agents"]]}
            for place, one in enumerate(every[0]["outcomes"])
        ]
        asking = [agent for part in every for agent in part["agents"] if agent["end"] != OutcomeStatus.UNASKED]
        return every[0] | {"agents": asking, "outcomes": outcomes}

    return await anyio.to_thread.run_sync(joined)


async def estimates_table(shown: Page) -> Response:
    """Download every agent's estimates as CSV, in full precision."""
    whole = await _everybody(shown)
    content = await shown.draw(lambda: findings_csv(whole).encode())
    return attached(shown, content, "text/csv; charset=utf-8", "estimates.csv")


async def outcomes_table(shown: Page) -> Response:
    """Download every agent's further outcomes as CSV, in full precision."""
    whole = await _everybody(shown)
    content = await shown.draw(lambda: outcomes_csv(asked_outcomes(whole)).encode())
    return attached(shown, content, "text/csv; charset=utf-8", "outcomes.csv")


routes = [
    page("/studies/{study}/answer", answer_page, tab=Translatable("Answer")),
    page("/studies/{study}/sign", sign, "POST"),
    page("/studies/{study}/signed", signed_in_anew),
    page("/studies/{study}/answer.json", answer_json),
    page("/studies/{study}/answer.csv", answer_table),
    page("/studies/{study}/estimates.csv", estimates_table),
    page("/studies/{study}/outcomes.csv", outcomes_table),
]
