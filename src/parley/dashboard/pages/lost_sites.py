"""What an administrator considers doing about a lost site, and what each way would come to, as the API computes it."""

from __future__ import annotations

from typing import Any

from parley.coordinator.answers import FreezePreview, ReweighPreview, ThawPreview
from parley.dashboard.calls import ApiRefusal
from parley.dashboard.entrance import Page

__all__ = ["BadColumns", "columns_of", "considered", "freeze_and_go_on"]

MOST_PAIRS = 30  # of a freeze's consequences that are listed one by one
MOST_COLUMNS = 12  # of a re-weighing


class BadColumns(Exception):
    """Weights that somebody typed cannot be read."""


def columns_of(text: str) -> dict[str, list[float]]:
    """Weights that were given by hand: a line an agent, its name, a colon, and a number for every agent.

    >>> columns_of("Lyon: 0.5, 0, 0.5")
    {'Lyon': [0.5, 0.0, 0.5]}
    """
    columns: dict[str, list[float]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, numbers = line.rpartition(":")
        try:
            columns[name.strip()] = [float(part) for part in numbers.split(",")]
        except ValueError:
            colon = ""
        if not colon:
            raise BadColumns(f"{line!r} is not an agent with its weights, as in “Lyon: 0.5, 0, 0.5”")
    return columns


async def considered(shown: Page) -> tuple[dict[str, Any], str]:
    """The previews of what is being considered, and why there is one missing."""
    told: dict[str, Any] = {"freezing": None, "reweighing": None, "thawing": None, "columns": "", "asks_weights": False}
    told |= {"most_pairs": MOST_PAIRS, "most_columns": MOST_COLUMNS}
    agent = shown.asked("freeze") or shown.form.get("agent", "")
    try:
        if shown.asked("thaw") or shown.form.get("do") == "thaw":
            agent = shown.asked("thaw") or agent
            told["thawing"] = await shown.api.read(ThawPreview, "studies", shown.study, "agents", agent, "thaw")
        elif agent:
            told["freezing"] = await shown.api.read(FreezePreview, "studies", shown.study, "agents", agent, "freeze")
        elif shown.asked("reweigh") or "columns" in shown.form:
            told |= {"columns": shown.form.get("columns", ""), "asks_weights": True}
            told["reweighing"] = await _reweighing(shown, told["columns"])
    except (ApiRefusal, BadColumns) as refusal:
        return told, str(refusal)
    return told, ""


async def _reweighing(shown: Page, columns: str) -> ReweighPreview:
    body = {"columns": columns_of(columns)}
    return await shown.api.act(ReweighPreview, "POST", "studies", shown.study, "reweigh", "preview", body=body)


async def freeze_and_go_on(shown: Page) -> str:
    """Freeze as it was confirmed; if the others were to be re-weighed, that too. Returns why this was not done.

    What re-weighing comes to may be otherwise once the agent is frozen: its freeze may have been what a phase waited
    for. The weights are those that were shown, or nothing happens.
    """
    agent, reason = shown.form.get("agent", ""), shown.form.get("reason", "").strip()
    anew = shown.form.get("way") == "reweigh"
    where = ("studies", shown.study, "agents", agent, "freeze")
    wanted = (await shown.api.read(FreezePreview, *where)).reweigh if anew else None
    body = {"reason": reason, "consequences": shown.form.get("consequences", "")}
    await shown.api.send("POST", *where, body=body)
    if not anew:
        return ""
    try:
        then = await _reweighing(shown, "")
        if wanted is None or then.weights != wanted["weights"]:
            return f"{agent} is frozen. Not re-weighed: the weights are others than those that were shown"
        body = {"reason": reason, "consequences": then.digest}
        await shown.api.send("POST", "studies", shown.study, "reweigh", body=body)
    except ApiRefusal as refusal:
        return f"{agent} is frozen. Not re-weighed: {refusal}"
    return ""
