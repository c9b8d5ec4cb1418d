"""The page with the list of studies."""

from starlette.responses import Response

from parley.coordinator.http.routes import studies
from parley.dashboard.render import STAGES
from parley.dashboard.session import Page, page

A_PAGE = 50


async def studies_page(shown: Page) -> Response:
    """The list of the studies that the reader may see, filtered by name and stage."""
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


routes = [page("/", studies_page)]
