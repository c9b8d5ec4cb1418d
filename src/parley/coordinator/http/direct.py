"""The short way to an operation, for requests that are what they should be.

FastAPI looks for an operation's arguments as if it could depend on anything; ours depend on the path, the query,
headers and one JSON body, and answer with a response. These are taken here, by the same fields and with the same
errors. What is missing or of another kind goes FastAPI's own way, which says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, get_type_hints

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["direct", "plain"]

Handler = Callable[[Request], Awaitable[Response]]
JSON = "application/json"


def plain(handler: Handler) -> ASGIApp:
    """A handler as an application, where no failure leaves the handler and nothing is to be closed behind it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


def direct(route: APIRoute, usual: Handler) -> Handler:
    """The handler of a route: the short way where there is one for it and for the request, else the usual one."""
    needs, operation = route.dependant, route.endpoint
    asked = [("path", field, field.alias) for field in needs.path_params]
    asked += [("query", field, field.alias) for field in needs.query_params]
    asked += [("header", field, field.alias.replace("_", "-")) for field in needs.header_params]

    async def whole(request: Request) -> Response:
        async with AsyncExitStack() as inner, AsyncExitStack() as function:
            request.scope.update({"fastapi_inner_astack": inner, "fastapi_function_astack": function})
            return await usual(request)

    if needs.dependencies or needs.cookie_params or len(needs.body_params) > 1 or not _answers(operation):
        return whole

    async def short(request: Request) -> Response:
        given = {"path": request.path_params, "query": request.query_params, "header": request.headers}
        values: dict[str, Any] = {} if needs.request_param_name is None else {needs.request_param_name: request}
        wrong: list[Any] = []
        for where, field, name in asked:
            value = given[where].get(name)
            if value is None:
                if field.field_info.is_required():
                    return await whole(request)
                values[field.name] = field.get_default()
                continue
            values[field.name], errors = field.validate(value, loc=(where, name))
            wrong += errors
        for field in needs.body_params:
            if request.headers.get("content-type") != JSON or not await request.body():
                return await whole(request)
            try:
                body = await request.json()
            except (ValueError, RecursionError):
                return await whole(request)
            values[field.name], errors = field.validate(body, loc=("body",))
            wrong += errors
        if wrong:
            raise RequestValidationError(wrong)
        answer: Response = await operation(**values)
        return answer

    return short


def _answers(operation: Callable[..., Any]) -> bool:
    """Whether an operation is awaited and makes its response itself."""
    answer = get_type_hints(operation).get("return")
    return inspect.iscoroutinefunction(operation) and isinstance(answer, type) and issubclass(answer, Response)
