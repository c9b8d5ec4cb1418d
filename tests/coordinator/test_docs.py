"""What the docs of the coordinator list is what there is."""

from dataclasses import fields
from pathlib import Path

from parley.coordinator.answers.base import every_answer
from parley.coordinator.problems import PROBLEMS
from parley.coordinator.settings import ServerSettings
from parley.service.assembly import create_service

DOCS = Path(__file__).parents[2] / "docs"


def test_every_setting_is_in_the_docs():
    page = (DOCS / "production.md").read_text(encoding="utf-8")
    for entry in ServerSettings.describe():
        default = "" if entry["default"] == "" else f"`{entry['default']}`"
        row = f"| `--{entry['name'].replace('_', '-')}` | `{entry['variable']}` | {default} | {entry['help']} |"
        assert row in page, row


def test_every_problem_is_in_the_docs():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    for slug, kind in PROBLEMS.items():
        assert f"| `{slug}` | {kind.status} | {'yes' if kind.retry else 'no'} | {kind.title} |" in page, slug


class Nothing:
    """A storage that is never asked."""

    url = ""


def answers():
    """Operation -> (method and path, the class of its answer or None), as OpenAPI has it."""
    document = create_service(Nothing(), ServerSettings(no_dashboard=True)).openapi()
    kinds = {kind.__name__: kind for kind in every_answer()}
    found = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            good = next(told for code, told in operation["responses"].items() if code.startswith("2"))
            schema = good.get("content", {}).get("application/json", {}).get("schema", {})
            kind = kinds.get(schema.get("$ref", "").rsplit("/", 1)[-1])
            found[operation["operationId"]] = f"{method.upper()} {path}", kind
    return found, document["components"]["schemas"]


def keys(kind):
    """The keys of an answer; the terms of a study stand under their own names."""
    return [field.name for field in fields(kind) if field.name != "terms"]


def answers_table():
    """Every answer with its keys, and the calls that give it, as docs/api.md shows them."""
    found, schemas = answers()
    lines = ["| answer | of | keys |", "|---|---|---|"]
    for kind in sorted((kind for kind in every_answer() if kind.__name__ in schemas), key=lambda kind: kind.__name__):
        calls = ", ".join(f"`{call}`" for call, told in found.values() if told is kind) or "within others"
        told = ", ".join(f"`{key}`" for key in keys(kind))
        lines.append(f"| **{kind.__name__}**: {kind.__doc__.splitlines()[0]} | {calls} | {told} |")
    return "\n".join(lines)


# What is told as it is stored, byte for byte, or goes on and on; and the receipt, whose form is the protocol's.
AS_STORED = {"get_document", "get_plan", "get_decision", "get_certificate", "export_log", "put_report"} | {
    "follow_study", "follow_studies", "metrics",
}  # fmt: skip


def test_every_answer_is_a_class_that_openapi_and_the_docs_list():
    found, schemas = answers()
    assert {name for name, (_, kind) in found.items() if kind is None} == AS_STORED
    for kind in every_answer():
        if kind.__name__ in schemas:
            assert list(schemas[kind.__name__]["properties"]) == keys(kind)
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = page.split("<!-- answers -->")[1].split("<!-- /answers -->")[0].strip()
    assert shown == answers_table(), "run python -m tests.coordinator.test_docs and paste its table"


if __name__ == "__main__":
    print(answers_table())
