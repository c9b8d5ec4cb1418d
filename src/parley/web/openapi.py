"""Operations of an HTTP API and their OpenAPI document, for coordinator and site."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec

PROBLEM = "application/problem+json"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An operation of an API, named after its handler."""

    method: str
    path: str
    handler: Callable[[Any], Awaitable[Any]]
    tag: str = ""
    public: bool = False  # needs no authentication
    place: type[msgspec.Struct] | None = None  # parameters of its path, if not the service's own
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None  # None: a stream, or no JSON
    failure: type[msgspec.Struct] | None = None  # the body of a refusal, if it is not a problem document
    media_type: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)  # headers that the handler reads -> what they are for
    also: Mapping[int, str] = field(default_factory=dict)  # further statuses -> what they mean
    hidden: bool = False  # not in the OpenAPI document
    name: str = field(init=False)  # the operation's id

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.handler.__name__)


@dataclass(frozen=True, kw_only=True)
class Service:
    """An API: the parts of its OpenAPI document that all operations share."""

    title: str
    version: str
    description: str
    security: Mapping[str, Mapping[str, str]]  # the ways to authenticate
    problem: type[msgspec.Struct]
    place: type[msgspec.Struct] | None = None  # parameters of a path, unless the operation says otherwise

    def document(self, endpoints: Iterable[Endpoint]) -> dict[str, Any]:
        """The OpenAPI document of these operations."""
        shown = [endpoint for endpoint in endpoints if not endpoint.hidden]
        named = {kind for one in shown for kind in (one.body, one.answer, one.failure) if kind is not None}
        _, schemas = msgspec.json.schema_components(
            [self.problem, *sorted(named, key=lambda kind: kind.__name__)], ref_template="#/components/schemas/{name}"
        )
        paths: dict[str, dict[str, Any]] = {}
        for endpoint in shown:
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = self._described(endpoint)
        return {
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": self.version, "description": self.description},
            "paths": paths,
            "components": {"schemas": schemas, "securitySchemes": self.security},
        }

    def _described(self, endpoint: Endpoint) -> dict[str, Any]:
        words = " ".join((endpoint.handler.__doc__ or "").split())
        answer: dict[str, Any] = {"description": "What was asked for."}
        answer["content"] = {endpoint.media_type: {"schema": _reference(endpoint.answer) if endpoint.answer else {}}}
        failure = {"application/json": endpoint.failure} if endpoint.failure else {PROBLEM: self.problem}
        refused = {media: {"schema": _reference(kind)} for media, kind in failure.items()}
        responses = {str(endpoint.status): answer}
        for status, said in endpoint.also.items():
            content = answer["content"] if status < 300 else refused if status >= 400 else {}
            responses[str(status)] = {"description": said, "content": content}
        responses["4XX"] = {"description": "Refused, and why.", "content": refused}
        responses["5XX"] = {"description": "Not possible at the moment.", "content": refused}
        described: dict[str, Any] = {
            "operationId": endpoint.name,
            "tags": [endpoint.tag],
            "summary": endpoint.name.replace("_", " ").capitalize(),
            "description": words,
            "parameters": list(self._parameters(endpoint)),
            "responses": responses,
            "security": [] if endpoint.public else [{name: []} for name in self.security],
        }
        if endpoint.body is not None:
            content = {"application/json": {"schema": _reference(endpoint.body)}}
            described["requestBody"] = {"required": True, "content": content}
        return described

    def _parameters(self, endpoint: Endpoint) -> Iterable[dict[str, Any]]:
        named = endpoint.place or self.place
        place = _parameters_of(named) if named else {}
        for name in re.findall(r"\{(\w+)\}", endpoint.path):
            schema = {key: value for key, value in place[name].items() if key != "default"}
            yield {"name": name, "in": "path", "required": True, "schema": schema}
        if endpoint.query is not None:
            for name, schema in _parameters_of(endpoint.query).items():
                yield {"name": name, "in": "query", "required": False, "schema": schema}
        for name, words in endpoint.headers.items():
            yield {"name": name, "in": "header", "required": False, "description": words, "schema": {"type": "string"}}


def _reference(kind: type[msgspec.Struct]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{kind.__name__}"}


@cache
def _parameters_of(kind: type[msgspec.Struct]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each field of a struct; enumerations are inlined."""
    _, found = msgspec.json.schema_components([kind], ref_template="{name}")

    def whole(schema: Any) -> Any:
        if isinstance(schema, dict):
            return whole(found[schema["$ref"]]) if "$ref" in schema else {key: whole(schema[key]) for key in schema}
        return [whole(one) for one in schema] if isinstance(schema, list) else schema

    return {name: whole(schema) for name, schema in found[kind.__name__]["properties"].items()}
