"""Every generated part of the repository, and the command that rewrites them: `make generated`.

A part is a function from a page's text to the text it should have; text written by hand around a table stays. Golden
files are different: they record what was written once, so existing ones are never rewritten; only missing ones are
made. `tests/tools/test_generated.py` fails where a part is stale, and names the command.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tools.pages import between, files, store, table

ROOT = Path(__file__).parents[1]
COMMAND = "make generated"
# Test modules that own golden files. Each has `golden_files()`: path -> a function that returns the text.
GOLDEN = (
    "tests.protocol.test_messages",
    "tests.protocol.test_golden_logs",
    "tests.protocol.test_golden_endings",
    "tests.protocol.test_deviations",
    "tests.protocol.test_held",
    "tests.edges.qualification.test_qualify",
)


def with_rows(page: str, head: str, rows: Iterable[str], *, start: int = 0) -> str:
    """The page with these rows below the first table head `head` after `start`."""
    place = page.find(head, start)
    if place < 0:
        raise SystemExit(f"no table with the head {head.splitlines()[0]!r}")
    body = place + len(head)
    old = re.compile(r"(?:\|.*\n)*").match(page, body)
    assert old is not None
    return page[:body] + "".join(f"{row}\n" for row in rows) + page[old.end() :]


def study_file(page: str) -> str:
    """docs/study-file.md: the keys of each section, under its heading."""
    from parley.settings import full_name
    from parley.study import REPEATED, SECTIONS

    for section, keys in SECTIONS.items():
        marked = f"[[{section}]]" if section in REPEATED else f"[{section}]"
        heading = f"## `{marked}`" if section else "## The question"
        rows = (f"| `{full_name(section, key)}` | {row.meaning} | {row.default} |" for key, row in keys.items())
        head = "| key | meaning | default |\n|---|---|---|\n"
        page = with_rows(page, head, (row.replace("|  |", "| |") for row in rows), start=page.index(heading))
    return page


def policies(page: str) -> str:
    """docs/policies.md: which policy supports which setting, and which keep their guarantee under drift."""
    from parley.policies import POLICIES
    from parley.settings import SETTINGS

    def taken(kind: type) -> str:
        return ", ".join(f"`{row.place}`" for row in SETTINGS.values() if row.name in kind.supports) or "none"

    rows = (
        f"| `{name}` | {taken(kind)} | {'the same' if kind.allows_drift else 'none'} |"
        for name, kind in POLICIES.items()
    )
    head = "| policy | settings it supports | guarantee [under drift](changes.md#drift) |\n|---|---|---|\n"
    return with_rows(page, head, rows)


def protocol(page: str) -> str:
    """docs/audit.md: the picture of the legal moves."""
    from parley.protocol.state_machine import picture

    return between(page, "transitions", f"```mermaid\n{picture()}\n```")


def api(page: str) -> str:
    """docs/appendix/api.md: every answer with its keys and the calls that return it; every problem."""
    from parley.coordinator.problems import PROBLEMS

    problems = (
        [f"`{slug}`", str(kind.status), "yes" if kind.retry else "no", kind.title] for slug, kind in PROBLEMS.items()
    )
    page = between(page, "problems", table(["slug", "status", "retry", "meaning"], problems))
    page = between(between(page, "acts", who_may_table()), "bodies of acts", bodies_table())
    return between(page, "answers", answers_table())


def who_may_table() -> str:
    """The operations of every act, and who may call them."""
    from parley.coordinator.access.tokens import Role
    from parley.coordinator.http.operations import OPERATIONS
    from parley.protocol.acts import ACTS

    names = {name for act in ACTS.values() for name in (act.name, act.preview.name if act.preview else "")}
    rows = (
        [f"`{row.method} {row.path}`", *("yes" * (role in row.roles) for role in Role)]
        for row in OPERATIONS
        if row.name in names
    )
    return table(["act", *Role], rows)


def bodies_table() -> str:
    """The request bodies of acts and previews, grouped by body."""
    from parley.protocol.acts import ACTS

    calls: dict[type, list[str]] = {}
    for act in ACTS.values():
        if act.preview is not None and act.preview.body is not None:
            calls.setdefault(act.preview.body, []).append(f"`POST .../{act.path}/preview`")
        calls.setdefault(act.body, []).append(f"`POST .../{act.path}`")
    rows = []
    for body, some in calls.items():
        fields = ", ".join(f'"{key}"' for key in body.known_keys())
        rows.append([", ".join(some), f"`{{{fields}}}`: {' '.join((body.__doc__ or '').split())}"])
    return table(["act", "body"], rows)


def answers() -> tuple[dict[str, tuple[str, type | None]], dict[str, dict]]:
    """Operation -> (method and path, the class of its answer or None), and the schemas of the OpenAPI document."""
    from parley.coordinator.settings import ServerSettings
    from parley.service.server import create_service

    class Nothing:
        """A storage that is never used."""

        url = ""

    document = create_service(Nothing(), ServerSettings(no_dashboard=True)).state.openapi()
    kinds = {kind.__name__: kind for kind in every_answer()}
    found = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            good = next(answer for code, answer in operation["responses"].items() if code.startswith("2"))
            schema = good.get("content", {}).get("application/json", {}).get("schema", {})
            kind = kinds.get(schema.get("$ref", "").rsplit("/", 1)[-1])
            found[operation["operationId"]] = f"{method.upper()} {path}", kind
    return found, document["components"]["schemas"]


def every_answer() -> list[type]:
    """The structs of all answers, of the coordinator and of edges."""
    from parley.coordinator import answers
    from parley.hooks import own_edges

    places = {answers.__name__} | {
        row.answer.__module__ for edge in own_edges() for row in edge.operations() if row.answer
    }
    kinds = [kind for place in sorted(places) for kind in vars(sys.modules[place]).values() if isinstance(kind, type)]
    kinds += answers.PREVIEWED.values()
    own = [kind for kind in kinds if issubclass(kind, answers.Answer) and kind is not answers.Answer]
    return [kind for kind in own if kind.__module__ in places]


def keys(kind: type) -> list[str]:
    """The keys of an answer."""
    return list(kind.__struct_fields__)


def answers_table() -> str:
    """The table of all answers with their keys and the calls that return them."""
    found, schemas = answers()
    rows = []
    for kind in sorted((kind for kind in every_answer() if kind.__name__ in schemas), key=lambda kind: kind.__name__):
        calls = ", ".join(f"`{call}`" for call, given in found.values() if given is kind) or "within others"
        names = ", ".join(f"`{key}`" for key in keys(kind))
        rows.append([f"**{kind.__name__}**: {(kind.__doc__ or '').splitlines()[0]}", calls, names])
    return table(["answer", "of", "keys"], rows)


def production(page: str) -> str:
    """docs/production.md: every setting of the server."""
    from parley.coordinator.settings import ServerSettings

    def row(entry: dict) -> list[str]:
        default = "" if entry["default"] == "" else f"`{entry['default']}`"
        return [f"`--{entry['name'].replace('_', '-')}`", f"`{entry['variable']}`", default, entry["help"]]

    return between(
        page, "settings", table(["option", "variable", "default", "meaning"], map(row, ServerSettings.describe()))
    )


def study_schema(_: str) -> str:
    """docs/_static/study.schema.json: the study file for editors, as `parley schema` prints it."""
    from parley.study import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"


def mutants(_: str) -> str:
    """docs/appendix/mutants.md: the list of flaws and the test that notices each."""
    from tools.mutants.page import page

    return page()


def promises(_: str) -> str:
    """promises.json of `parley qualify`: each promise with its tests and mutants, and who may do what."""
    from tools import promises

    return promises.text()


def paper(page: str) -> str:
    """paper/paper.md: its tables, from the files that `make reproduction` and `make correctness` wrote."""
    from tools.paper import costs, errors

    return between(between(page, "costs", costs()), "errors", errors())


# Page with generated parts -> the function that returns its new text.
PAGES: dict[str, Callable[[str], str]] = {
    "docs/study-file.md": study_file,
    "docs/_static/study.schema.json": study_schema,
    "docs/policies.md": policies,
    "docs/audit.md": protocol,
    "docs/appendix/api.md": api,
    "docs/production.md": production,
    "docs/appendix/mutants.md": mutants,
    "paper/paper.md": paper,
    "src/parley/edges/qualification/promises.json": promises,
}


def stale(name: str) -> tuple[str, dict[Path, str]] | None:
    """The text that a page should have, with the files of its tables; None if all are up to date."""
    path = ROOT / name
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    new, made = PAGES[name](old), dict[Path, str]()
    if name.startswith("docs/") and path.suffix == ".md":
        new, made = files(path, new)
    same = all(one.exists() and one.read_text(encoding="utf-8") == content for one, content in made.items())
    return None if new == old and same else (new, made)


def golden_files() -> dict[Path, Callable[[], str]]:
    """Every golden file, with the function that returns its text."""
    return {path: text for name in GOLDEN for path, text in importlib.import_module(name).golden_files().items()}


def main() -> int:
    """Rewrite stale pages, make missing files, and print what was done."""
    from tools import catalogs

    changed = []
    for path, text in catalogs.texts().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(str(path.relative_to(ROOT)))
    for name in PAGES:
        new = stale(name)
        if new is not None:
            store(ROOT / name, *new)
            changed.append(name)
    for path, text in golden_files().items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text(), encoding="utf-8")
            changed.append(str(path.relative_to(ROOT)))
    print("\n".join(f"rewritten: {name}" for name in changed) or "everything generated is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
