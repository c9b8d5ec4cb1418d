"""The pages that the build writes: commands, HTTP API, Python API, notebooks."""

from __future__ import annotations

from pathlib import Path

from _pages import commands, http_api, python_api, tables

__all__ = ["tables", "write_generated"]


def write_generated(source: Path) -> None:
    """Write every generated page that differs from what is there, so that an unchanged one is not built again."""
    pages = {
        "reference/commands.md": commands.page(),
        "reference/http-api.md": http_api.page(),
        **{f"reference/python/{name}.md": text for name, text in python_api.pages().items()},
        **notebooks(source.parent / "examples"),
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
