"""The list of studies, and a new one from a study file with the planner's estimate before it is launched."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from parley.coordinator.answers import Studies
from parley.coordinator.http.context import context_of
from parley.dashboard.calls import ApiRefusal
from parley.dashboard.entrance import ADMINISTRATORS, Page, page
from parley.dashboard.upload import key_rows, uploaded_study
from parley.dashboard.words import STAGES
from parley.errors import ParleyError
from parley.protocol import StudyMessage
from parley.protocol.codec import canonical

__all__ = ["routes"]

A_PAGE = 50
FORM: dict[str, Any] = {
    "text": "",
    "id": "",
    "problem": "",
    "document": None,
    "told": {},
    "estimate": None,
    "keys": key_rows(),
}


async def studies_page(shown: Page) -> Response:
    """The studies that the reader may see; a reader of one study sees that one."""
    search, stage = shown.asked("search")[:100], shown.asked("stage")
    stage = stage if stage in STAGES else ""
    wanted = {"search": search, "stage": stage, "after": shown.asked("after")[:64], "limit": A_PAGE}
    found = await shown.api.read(Studies, "studies", **wanted)
    return await shown.show(
        "studies.html",
        studies=found.studies,
        next=found.next,
        search=search,
        stage=stage,
        mark=found.version,
    )


async def new_study_page(shown: Page) -> Response:
    """An empty form."""
    return await shown.show("new_study.html", **FORM)


def _read(text: str, name: str, limits: tuple[int, int]) -> tuple[StudyMessage, dict[str, Any], bytes]:
    """A study, its document, and what the API takes to create it."""
    study = uploaded_study(text, *limits)
    document = study.to_json()
    return study, document, canonical({"study": document} | ({"id": name} if name else {})).encode()


async def new_study(shown: Page) -> Response:
    """Check the file and show the estimate; launch when asked to."""
    text, name = shown.form.get("study", ""), shown.form.get("id", "").strip()
    known = FORM | {"text": text, "id": name}
    settings = context_of(shown.request).settings
    limits = (settings.max_agents, settings.max_cells)
    try:
        study, document, body = await shown.compute(partial(_read, text, name, limits))
        if shown.form.get("do") == "launch":
            made = await shown.api.send("POST", "studies", body=body)
            return RedirectResponse(f"/studies/{quote(made['id'], safe='')}", status_code=303)
        estimate = await shown.api.send("POST", "estimates", body=body)
    except ParleyError as error:
        return await shown.show("new_study.html", code=422, **known | {"problem": str(error)})
    except ApiRefusal as refusal:
        if refusal.status not in (409, 413, 422):
            raise
        words = f"{refusal.problem['title']}: {refusal.problem['detail']}"
        return await shown.show("new_study.html", code=refusal.status, **known | {"problem": words})
    told = study.problem.descriptions()
    return await shown.show("new_study.html", **known | {"document": document, "told": told, "estimate": estimate})


routes: list[Route] = [
    page("/", studies_page),
    page("/new", new_study_page),
    page("/new", new_study, "POST", uploads=True, only=ADMINISTRATORS),
]
