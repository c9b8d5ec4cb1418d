"""The short way to an operation answers as FastAPI's own way does, whatever is sent."""

import json
from typing import Annotated

import pytest
from fastapi import APIRouter, FastAPI, Header, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from tests.support import awaited

from parley.coordinator.http import direct as module
from parley.coordinator.http.direct import direct, plain


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int
    words: list[str] = []


async def ask(
    request: Request,
    name: str,
    number: int,
    wait: Annotated[float, Query(ge=0, le=60)] = 0,
    needed: Annotated[int | None, Query()] = None,
    parley_receipt: Annotated[str | None, Header()] = None,
) -> JSONResponse:
    return JSONResponse([request.method, name, number, wait, needed, parley_receipt])


async def put(name: str, must: int, body: Body) -> JSONResponse:
    return JSONResponse([name, must, body.model_dump()], status_code=201)


class Short(APIRoute):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.app = plain(self.get_route_handler())

    def get_route_handler(self):
        return direct(self, super().get_route_handler())


def app_of(kind):
    router = APIRouter(route_class=kind)
    router.get("/{name}/{number}")(ask)
    router.put("/{name}")(put)
    app = FastAPI()
    app.router.routes.extend(router.routes)
    return app


def answer(app, method, path, query="", headers=(), body=b""):
    told = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        told.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "root_path": "", "path": path,
        "raw_path": path.encode(), "query_string": query.encode(), "headers": list(headers), "state": {},
    }  # fmt: skip
    awaited(app(scope, receive, send))
    return told[0]["status"], json.loads(told[1]["body"])


JSON, LATIN = [(b"content-type", b"application/json")], [(b"content-type", b"application/json; charset=latin-1")]
REQUESTS = {
    "right": ("GET", "/a/3", "wait=2.5&needed=4", [(b"parley-receipt", b"x")]),
    "defaults": ("GET", "/a/3"),
    "an unknown key": ("GET", "/a/3", "other=1"),
    "twice": ("GET", "/a/3", "wait=1&wait=2"),
    "empty": ("GET", "/a/3", "wait="),
    "wrong everywhere": ("GET", "/a/x", "wait=99&needed=y"),
    "a body": ("PUT", "/a", "must=1", JSON, b'{"count": 1, "words": ["x"]}'),
    "a body of the same kind": ("PUT", "/a", "must=1", LATIN, b'{"count": 1}'),
    "nothing that must be there": ("PUT", "/a", "", JSON, b'{"count": 1}'),
    "no body": ("PUT", "/a", "must=1", JSON),
    "another kind": ("PUT", "/a", "must=1", [(b"content-type", b"text/plain")], b'{"count": 1}'),
    "no kind": ("PUT", "/a", "must=1", [], b'{"count": 1}'),
    "no JSON": ("PUT", "/a", "must=1", JSON, b'{"count": '),
    "no UTF-8": ("PUT", "/a", "must=1", JSON, b'{"count": "\xff"}'),
    "a list": ("PUT", "/a", "must=1", JSON, b"[1]"),
    "null": ("PUT", "/a", "must=1", JSON, b"null"),
    "wrong values": ("PUT", "/a", "must=x", JSON, b'{"count": "y", "words": [1], "more": 2}'),
}


@pytest.mark.parametrize("asked", REQUESTS.values(), ids=REQUESTS)
def test_both_ways_answer_the_same(asked):
    assert answer(app_of(Short), *asked) == answer(app_of(APIRoute), *asked)


def test_what_is_right_takes_the_short_way(monkeypatch):
    """And what is missing does not, or the first test would compare nothing."""
    taken = []
    monkeypatch.setattr(module, "AsyncExitStack", lambda real=module.AsyncExitStack: taken.append(1) or real())
    app = app_of(Short)
    assert answer(app, *REQUESTS["right"])[0] == 200
    assert answer(app, *REQUESTS["a body"])[0] == 201
    assert not taken
    assert answer(app, *REQUESTS["no body"])[0] == 422
    assert taken
