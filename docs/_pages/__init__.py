"""The pages that the build writes: commands, HTTP API, Python API, notebooks, and pages that no part names yet."""

from __future__ import annotations

import re
from pathlib import Path

from _pages import commands, http_api, python_api

__all__ = ["write_generated"]


def write_generated(source: Path) -> None:
    """Write every generated page that differs from what is there, so that an unchanged one is not built again."""
    pages = {
        "reference/commands.md": commands.page(),
        "reference/http-api.md": http_api.page(),
        **{f"reference/python/{name}.md": text for name, text in python_api.pages().items()},
        **notebooks(source.parent / "examples"),
        "more.md": _more(source),
    }
    for name, text in pages.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def notebooks(examples: Path) -> dict[str, str]:
    """The notebooks among the examples, with links as they are from the site."""
    found = sorted(examples.glob("*.ipynb"))
    return {f"notebooks/{path.name}": path.read_text("utf-8").replace("](../docs/", "](../") for path in found}


def _more(source: Path) -> str:
    """Pages of `docs` that are in no part's list: a new page is found even before somebody has chosen its place."""
    listed = set()
    for index in ("index", "tutorials/index", "how-to/index", "explanation/index", "reference/index"):
        folder = (source / index).parent
        for block in re.findall(
            r"```\{toctree\}\n(.*?)```", (source / f"{index}.md").read_text("utf-8"), flags=re.DOTALL
        ):
            for line in block.splitlines():
                name = (re.findall(r"<(.+)>$", line) or [line.strip()])[0]
                listed.add((folder / f"{name}.md").resolve())
    rest = sorted(
        path.stem for path in source.glob("*.md") if path.resolve() not in listed and path.stem not in ("index", "more")
    )
    if not rest:
        return "---\norphan: true\n---\n# More pages\n\nThere are none: every page has its place.\n"
    head = ["---", "orphan: true", "---", "# More pages", ""]
    return "\n".join([*head, "```{toctree}", ":maxdepth: 1", "", *sorted(rest), "```", ""])
