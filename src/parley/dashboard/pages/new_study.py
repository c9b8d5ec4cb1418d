"""Pages for a new study: step by step, from an example or a study file, with its likely cost before the launch.

The text of the study file is all that a form carries from one step to the next. So every step works without a script,
and the file can be downloaded at any time.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import anyio.to_thread
import numpy as np
from starlette.responses import RedirectResponse, Response

from parley.coordinator.answers import Estimated
from parley.coordinator.http.routes import studies
from parley.coordinator.http.schemas import EstimateBody
from parley.coordinator.problems import Refusal
from parley.dashboard.charts import mix_chart
from parley.dashboard.render import HERE
from parley.dashboard.session import ADMINISTRATORS, Page, page
from parley.dashboard.study_form import BY_NAME, STEPS, Step, applied, shown_step, step_of
from parley.errors import InvalidInput, ParleyError
from parley.problem import Problem
from parley.protocol import StudyMessage
from parley.protocol.messages import MOST_AGENTS, MOST_CELLS, require_live_size
from parley.questions import most_asked
from parley.settings import SETTINGS, full_name
from parley.study import SECTIONS, parse_study, read_toml
from parley.text.translation import AUDIENCES, Translatable, gettext

T = TypeVar("T")
ANOTHER_FILE = "weights.file"
HUGE = 10**9  # larger numbers of agents or arms are checked as if they were this one, however many digits they have


def key_rows() -> list[tuple[str, str, str]]:
    """Key, meaning and default, in plain text, of every key that a study file from a browser may have.

    >>> key_rows()[3]
    ('delta', "largest probability that any agent's answer is wrong, between 0 and 1", '0.1')
    """
    rows = ((full_name(section, key), row) for section, keys in SECTIONS.items() for key, row in keys.items())
    return [(key, *row.plain) for key, row in rows if key != ANOTHER_FILE and not key.startswith("truth.")]


def _require_small(document: Mapping[str, Any], most_agents: int, most_cells: int) -> None:
    """Raise if a study is too large, before its weights are built: 6,000 agents have 36 million weights."""
    agents, arms = (len(value) if isinstance(value, list) else value for value in map(document.get, ("agents", "arms")))
    if not isinstance(agents, int) or not isinstance(arms, int):
        return  # the full check reports the error
    require_live_size(min(arms, HUGE), min(most_asked(document, agents), HUGE), most_agents, most_cells)


def uploaded_study(text: str, most_agents: int = MOST_AGENTS, most_cells: int = MOST_CELLS) -> StudyMessage:
    """Read an uploaded study file, without its truth.

    Raise if the study is too large or its weights are in another file: files on the server are never opened.

    >>> uploaded_study('arms = 2\\nagents = ["Lyon"]').agents
    ('Lyon',)
    """
    document = read_toml(text)
    _require_small(document, most_agents, most_cells)
    truth = document.get("truth")
    # A study does not need its truth here, and the table of the truth is on another machine.
    if isinstance(truth, dict) and "data" in truth:
        del document["truth"]
    weights = document.get("weights")
    scenarios = weights.get("scenarios") if isinstance(weights, dict) else None
    several = scenarios if isinstance(scenarios, list) else []
    if any(isinstance(one, dict) and "file" in one for one in (weights, *several)):
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
    "steps": STEPS,
    "step": None,
    "starts": {},
}
MOST_MIXED = 12  # rows of the mix in the chart and in the table
STARTS = {  # file in `starts` -> its description
    "four-hospitals": Translatable("a trial in four hospitals with yes-or-no outcomes, a tolerance and a budget"),
    "web-study": Translatable("an experiment in five markets: which page sells best?"),
    "three-centres": Translatable("a study in three centres, in the shortest possible file"),
}
LARGE = 50_000  # characters of a study file; longer files are parsed in the queue of slow work
# Buttons that lead to the same step again.
STAY = ("check", "power", "stay")


async def new_study_page(shown: Page) -> Response:
    """The first page for a new study, with examples and room for a study file."""
    return await shown.show("new_study.html", **FORM | {"starts": STARTS})


def _read(given: dict[str, str], limits: tuple[int, int]) -> tuple[StudyMessage, EstimateBody]:
    """Read the study from a form, and make the body of the request that estimates or creates it."""
    study = uploaded_study(given["text"], *limits)
    wanted = {key: _number(key, given[key]) for key in ("power", "gap") if given[key]}
    return study, EstimateBody.from_json({"study": study.to_json(), "id": given["id"] or None, **wanted})


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(name, found=text[:80], allowed="a number, such as 0.9") from None


async def new_study(shown: Page) -> Response:
    """Handle a form of these pages: go to a step, download the file, estimate the cost, or launch the study."""
    given = {name: shown.form.get(name, "").strip() for name in ("id", "power", "gap")}
    given["text"] = shown.form.get("study", "")
    do, step = shown.form.get("do", ""), BY_NAME.get(shown.form.get("step", ""))
    if do.removeprefix("start:") in STARTS:
        given["text"] = (HERE / "starts" / f"{do.removeprefix('start:')}.toml").read_text(encoding="utf-8")
        return await _show_step(shown, given, STEPS[0])
    try:
        if step is not None:
            given["text"] = await _light(shown, given["text"], partial(applied, given["text"], step, shown.form))
    except ParleyError as error:  # not TOML: only possible in text that did not come from these steps
        return await shown.show("new_study.html", code=422, **FORM | given | {"problem": str(error)})
    if do == "download":
        name = {"Content-Disposition": 'attachment; filename="study.toml"'}
        return Response(given["text"], media_type="application/toml", headers=name)
    if do in STAY and step is not None:
        return await _show_step(shown, given, step, do=do)
    if (wanted := BY_NAME.get(do.removeprefix("go:"))) is not None:
        return await _go(shown, given, step, wanted)
    if step is not None and do == "estimate" and (problem := await _problem(shown, given["text"])) is not None:
        place = min(step_of(problem.key), len(STEPS) - 1)
        return await _show_step(shown, given, STEPS[place], insist=True, code=422)
    return await _review(shown, given, do)


async def _review(shown: Page, given: dict[str, str], do: str) -> Response:
    """Launch the study if `do` is "launch"; otherwise return the page with its estimate, which has a launch button."""
    known = FORM | given
    try:
        study, body = await shown.compute(partial(_read, given, _limits(shown)))
        if do == "launch":
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


def _limits(shown: Page) -> tuple[int, int]:
    settings = shown.context.settings
    return settings.max_agents, settings.max_cells


def _refused(text: str, limits: tuple[int, int]) -> InvalidInput | None:
    try:
        uploaded_study(text, *limits)
    except InvalidInput as error:
        return error
    return None


async def _problem(shown: Page, text: str) -> InvalidInput | None:
    """The first error in a study file's text; None if there is none."""

    limits = _limits(shown)

    def checked() -> InvalidInput | None:
        problem = _refused(text, limits)
        if problem is None or problem.key != "agents" or problem.found != "nothing":
            return problem
        # No agents are typed yet, and parsing stops there. Check the rest of the first step as if there were one agent.
        other = _refused(f"agents = 1\n{text}", limits)
        return other if other is not None and step_of(other.key) == 0 else problem

    return await _light(shown, text, checked)


async def _light(shown: Page, text: str, work: Callable[[], T]) -> T:
    """Run quick work without queueing behind slow estimates, since somebody is typing; large files are queued."""
    return await (shown.compute(work) if len(text) > LARGE else anyio.to_thread.run_sync(work))


async def _go(shown: Page, given: dict[str, str], step: Step | None, wanted: Step) -> Response:
    """Go to another step; forward only if nothing is wrong in this step or in earlier steps."""
    if step is not None and STEPS.index(wanted) > STEPS.index(step):
        problem = await _problem(shown, given["text"])
        if problem is not None and step_of(problem.key) <= STEPS.index(step):
            return await _show_step(shown, given, STEPS[step_of(problem.key)], insist=True, code=422)
    return await _show_step(shown, given, wanted)


async def _show_step(
    shown: Page, given: dict[str, str], step: Step, *, do: str = "", insist: bool = False, code: int = 200
) -> Response:
    """Render a step with the file's values, and with the first error unless a later step asks for the wrong value.

    While somebody types, missing values are not errors. They become errors when the reader wants to go on (`insist`).
    """
    text, place = given["text"], STEPS.index(step)
    try:
        document = read_toml(text)
    except InvalidInput as error:
        return await shown.show("new_study.html", code=422, **FORM | given | {"problem": str(error)})
    problem = await _problem(shown, text)
    ready = problem is None
    if problem is not None and (step_of(problem.key) > place or (problem.found == "nothing" and not insist)):
        problem = None
    study = await _light(shown, text, lambda: uploaded_study(text, *_limits(shown))) if ready else None
    values: dict[str, Any] = {"estimate": None, "unmet": ""}
    if do == "power" and ready:
        values |= await _estimate(shown, given)
    audience = document.get("audience")

    def made() -> dict[str, Any]:
        return {
            "shown": shown_step(document, step, problem.key if problem else ""),
            "mix": _mix(study.problem) if study is not None and step.name == "weights" else None,
        }

    return await shown.show(
        "new_step.html",
        code=code,
        made=made,
        step=step,
        steps=STEPS,
        place=place,
        text=text,
        ready=ready,
        problem=str(problem) if problem else "",
        document=study.to_json() if study is not None else document,
        audience=audience if audience in AUDIENCES else SETTINGS["audience"].default_value,
        **{name: given[name] for name in ("id", "power", "gap")},
        **values,
    )


async def _estimate(shown: Page, given: dict[str, str]) -> dict[str, Any]:
    """The planner's estimate for the typed study; if there is none, `unmet` says why."""
    try:
        _, body = await shown.compute(partial(_read, given, _limits(shown)))
        return {"estimate": await shown.call("estimate_study", body=body), "unmet": ""}
    except (ParleyError, Refusal) as error:
        return {"estimate": None, "unmet": error.sentence if isinstance(error, Refusal) else str(error)}


def _mix(problem: Problem) -> dict[str, Any]:
    """A chart and a table of the weights: how much each agent's results count in each question."""
    asking = [place for place, name in enumerate(problem.agents) if name not in problem.draws_only][:MOST_MIXED]
    drawing = [place for place, name in enumerate(problem.agents) if name not in problem.asks_only]
    names = [problem.agents[place] for place in drawing]
    rows = [(problem.agents[place], np.asarray(problem.weights)[drawing, place].tolist()) for place in asking]
    label = gettext("How much each agent's results count in every question; the numbers are below")
    return {"picture": mix_chart(names, rows, label), "names": names[:MOST_MIXED], "rows": rows}


routes = [
    page("/new", new_study_page),
    page("/new", new_study, "POST", uploads=True, only=ADMINISTRATORS),
]
