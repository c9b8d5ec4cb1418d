"""Every route of coordinator and site, from the OpenAPI documents that they serve, and every kind of problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

from parley.coordinator.problems import PROBLEMS
from parley.coordinator.record import initialise, open_storage
from parley.coordinator.settings import ServerSettings
from parley.service.server import create_service
from parley.site.app import DOCUMENT, Api, SiteParts, all_operations

__all__ = ["page"]


def _document() -> dict[str, Any]:
    """The document of a whole site, on a database that is made for the purpose."""
    with TemporaryDirectory(prefix="parley-docs-") as folder:
        address = f"{folder}/parley.db"
        initialise(address)
        storage = open_storage(address)
        try:
            return dict(create_service(storage, ServerSettings(db=address)).state.openapi())
        finally:
            storage.close()


def page() -> str:
    """Routes by address, the shapes that they name, the problems."""
    api: Any = Api  # operations are described here, not called
    nobody: Any = SimpleNamespace(sites=[SimpleNamespace(study="")])
    parts = SiteParts(strata=nobody, access=nobody, given=nobody, options={})
    document, site = _document(), DOCUMENT.document(all_operations(api, parts))
    lines = [
        "# HTTP API, route by route",
        "",
        "Written from the OpenAPI document that a coordinator serves at `/v1/openapi.json`;",
    ]
    lines += ["[the HTTP API](../api.md) says who may call what, and what the answers mean.", "", "## Routes", ""]
    for path, methods in sorted(document["paths"].items()):
        for method, told in methods.items():
            lines += _route(method.upper(), path, told)
    lines += ["## Routes of a site", "", "`parley site` serves them ([the API of a site](../site.md#the-api)).", ""]
    for path, methods in site["paths"].items():
        for method, told in methods.items():
            lines += _route(method.upper(), path, told)
    lines += ["## Shapes", ""]
    for name, shape in sorted((site["components"]["schemas"] | document["components"]["schemas"]).items()):
        lines += _shape(name, shape)
    lines += ["## Problems", "", "What is not success is `application/problem+json`, with one of these types.", ""]
    lines += ["| type | status | meaning | the same request may succeed later |", "|---|---|---|---|"]
    lines += [
        f"| `urn:parley:problem:{slug}` | {kind.status} | {kind.title} | {'yes' if kind.retry else ''} |"
        for slug, kind in PROBLEMS.items()
    ]
    return "\n".join(lines) + "\n"


def _route(method: str, path: str, told: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{method} {path}`"
    yield ""
    yield _plain(told.get("description") or told.get("summary") or "")
    yield ""
    parameters = told.get("parameters", [])
    body = told.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if parameters:
        yield "| parameter | in | type | |"
        yield "|---|---|---|---|"
        for one in parameters:
            default = one["schema"].get("default")
            needed = "needed" if one.get("required") else "" if default in (None, "") else f"default {default}"
            yield f"| `{one['name']}` | {one['in']} | {_type(one['schema'])} | {needed} |"
        yield ""
    if body:
        yield f"Body: {_type(body)}."
        yield ""
    answers = [
        _type(content["schema"])
        for status, answer in told.get("responses", {}).items()
        if status.startswith("2")
        for content in answer.get("content", {}).values()
        if "$ref" in content.get("schema", {})
    ]
    if answers:
        yield f"Answers {' or '.join(dict.fromkeys(answers))}."
        yield ""


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield ""
    if shape.get("description"):
        yield _plain(shape["description"])
        yield ""
    fields = shape.get("properties", {})
    if fields:
        yield "| field | type | |"
        yield "|---|---|---|"
        for key, one in fields.items():
            words = " ".join(str(one.get("description", "")).split())
            needed = "needed" if key in shape.get("required", ()) else ""
            told = _plain("; ".join(filter(None, (needed, words)))).replace("|", "\\|")
            yield f"| `{key}` | {_type(one)} | {told} |"
        yield ""


def _type(schema: Mapping[str, Any]) -> str:
    """A schema in a few words; a named one as a link to its shape."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(_type(one) for one in schema[key])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type((schema.get('prefixItems') or [schema.get('items', {})])[0])}"
    limits = [f"{words} {schema[key]}" for key, words in LIMITS.items() if key in schema]
    return " ".join([schema.get("type", "any value"), *(["(" + ", ".join(limits) + ")"] if limits else [])])


LIMITS = {
    "minimum": "from",
    "maximum": "to",
    "exclusiveMinimum": "above",
    "exclusiveMaximum": "below",
    "minLength": "characters from",
    "maxLength": "characters to",
}


def _plain(text: str) -> str:
    """Markdown that shows the text as it is; between backticks it is shown as it is anyway."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):
        parts[place] = parts[place].replace("<", "\\<").replace("[", "\\[").replace("*", "\\*")
    return "`".join(parts)
