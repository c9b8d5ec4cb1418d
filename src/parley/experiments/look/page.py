"""The shell of the static pages: light and dark, tables, figures as SVG. No script, nothing from another host."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from html import escape

from matplotlib.figure import Figure

__all__ = ["page", "picture", "table"]

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d0d7de; --soft: #57606a; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --line: #30363d; --soft: #9ba4ae; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 64rem; padding: 1.5rem; }
h1 { line-height: 1.2; } .soft { color: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; min-width: 30rem; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
.dark { display: none; }
@media (prefers-color-scheme: dark) { .light { display: none; } .dark { display: block; } }
code { font-size: .95em; }
"""


def _svg(figure: Figure) -> str:
    """A figure as SVG to stand inside a page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; every cell is escaped."""
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def picture(draw: Callable[[str], Figure], label: str) -> str:
    """A figure in both themes, of which the reader's setting shows one; `draw` is given the theme's name."""
    both = "".join(f'<div class="{theme}">{_svg(draw(theme))}</div>' for theme in ("light", "dark"))
    return f'<figure role="img" aria-label="{escape(label)}">{both}</figure>'


def page(title: str, *parts: str, command: str) -> str:
    """A whole page; `parts` are HTML, `title` and `command` are text."""
    body = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1>
{body}
<p class="soft">Made by <code>{escape(command)}</code>.</p>
</body></html>
"""
