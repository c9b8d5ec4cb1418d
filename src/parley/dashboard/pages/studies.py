"""The list of studies, and a new one from a study file with the planner's estimate before it is launched."""

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import Estimated
from parley.coordinator.http.routes import studies
from parley.coordinator.http.schemas import EstimateBody
from parley.coordinator.problems import Refusal
from parley.dashboard.render import STAGES
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.errors import InvalidInput, ParleyError
from parley.protocol import StudyMessage
from parley.protocol.messages import MOST_AGENTS, MOST_CELLS, require_live_size
from parley.questions import most_asked
from parley.settings import full_name
from parley.study import SECTIONS, parse_study, read_toml

A_PAGE = 50
ANOTHER_FILE = "weights.file"
HUGE = 10**9  # whatever is larger is too large, and its digits are nobody's business


def key_rows() -> list[tuple[str, str, str]]:
    """Key, meaning and default of all that a browser may send, in plain words.

    >>> key_rows()[3]
    ('delta', "largest probability that any agent's answer is wrong, between 0 and 1", '0.1')
    """
    rows = ((full_name(section, key), row) for section, keys in SECTIONS.items() for key, row in keys.items())
    return [(key, *row.plain) for key, row in rows if key != ANOTHER_FILE and not key.startswith("truth.")]


def _require_small(document: Mapping[str, Any], most_agents: int, most_cells: int) -> None:
    """Before anything is made from it: weights of 6,000 agents are 36 million numbers."""
    agents, arms = (len(value) if isinstance(value, list) else value for value in map(document.get, ("agents", "arms")))
    if not isinstance(agents, int) or not isinstance(arms, int):
        return  # whoever reads it further says what is wrong
    require_live_size(min(arms, HUGE), min(most_asked(document, agents), HUGE), most_agents, most_cells)


def uploaded_study(text: str, most_agents: int = MOST_AGENTS, most_cells: int = MOST_CELLS) -> StudyMessage:
    """The study of a study file, without its truth, if it is not too large here. No file of the server's is ever read.

    >>> uploaded_study('arms = 2\\nagents = ["Lyon"]').agents
    ('Lyon',)
    """
    document = read_toml(text)
    _require_small(document, most_agents, most_cells)
    truth = document.get("truth")
    if (
        isinstance(truth, dict) and "data" in truth
    ):  # no study needs its truth here, and its table is on another machine
        del document["truth"]
    weights = document.get("weights")
    scenarios = weights.get("scenarios") if isinstance(weights, dict) else None
    if any(isinstance(one, dict) and "file" in one for one in (weights, *(scenarios or ()))):
        raise InvalidInput(
            ANOTHER_FILE,
            found="the name of another file, which a browser does not send",
            allowed='kind = "matrix" with the rows in `matrix`',
        )
    return StudyMessage.of(parse_study(document))


FORM: dict[str, Any] = {
    "text": "",
    "id": "",
    "power": "",
    "gap": "",
    "problem": "",
    "document": None,
    "descriptions": {},
    "estimate": None,
    "keys": key_rows(),
}


async def studies_page(shown: Page) -> Response:
    """The studies that the reader may see; a reader of one study sees that one."""
    search, stage = shown.asked("search")[:100], shown.asked("stage")
    stage = stage if stage in STAGES else ""
    wanted = {"search": search, "stage": stage, "after": shown.asked("after")[:64], "limit": A_PAGE}
    found = await shown.call(studies.list_studies, wanted)
    return await shown.show(
        "studies.html",
        studies=found.studies,
        damaged=found.damaged,
        next=found.next,
        search=search,
        stage=stage,
        mark=found.version,
    )


async def new_study_page(shown: Page) -> Response:
    """An empty form."""
    return await shown.show("new_study.html", **FORM)


def _read(given: Mapping[str, str], limits: tuple[int, int]) -> tuple[StudyMessage, EstimateBody]:
    """A study, and what estimates or creates it."""
    study = uploaded_study(given["text"], *limits)
    wanted = {key: _number(key, given[key]) for key in ("power", "gap") if given[key]}
    return study, EstimateBody.from_json({"study": study.to_json(), "id": given["id"] or None, **wanted})


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(name, found=text[:80], allowed="a number, such as 0.9") from None


async def new_study(shown: Page) -> Response:
    """Check the file and show the estimate; launch when asked to."""
    given = {name: shown.form.get(name, "").strip() for name in ("id", "power", "gap")}
    given["text"] = shown.form.get("study", "")
    known = FORM | given
    settings = shown.context.settings
    limits = (settings.max_agents, settings.max_cells)
    try:
        study, body = await shown.compute(partial(_read, given, limits))
        if shown.form.get("do") == "launch":
            made = await shown.call(studies.create_study, body=body)
            return RedirectResponse(f"/studies/{quote(made.id, safe='')}", status_code=303)
        estimate: Estimated = await shown.call("estimate_study", body=body)
    except ParleyError as error:
        return await shown.show("new_study.html", code=422, **known | {"problem": str(error)})
    except Refusal as refusal:
        if refusal.status not in (409, 413, 422):
            raise
        return await shown.show("new_study.html", code=refusal.status, **known | {"problem": refusal.sentence})
    read = {"document": body.study, "audience": study.problem.audience, "estimate": estimate}
    read["descriptions"] = study.problem.descriptions()
    return await shown.show("new_study.html", **known | read)


routes = [
    page("/", studies_page),
    page("/new", new_study_page),
    page("/new", new_study, "POST", uploads=True, only=ADMINISTRATORS),
]
