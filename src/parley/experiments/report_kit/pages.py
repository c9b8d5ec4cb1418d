"""The shell of the static pages: light and dark, tables, figures as SVG. No script, nothing from another host."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files

from matplotlib import rc_context
from matplotlib.figure import Figure

from parley.formatting import is_number

__all__ = ["page", "picture", "table"]

FONT = files("parley") / "dashboard" / "static" / "fonts" / "inter.woff2"
# The dashboard's colours and typeface; the font is in the page, which may be sent to anybody.
STYLE = """
@font-face { font-family: "Inter"; src: url(data:font/woff2;base64,FONT) format("woff2"); font-weight: 100 900; }
:root { color-scheme: light dark; --ink: #1c2128; --paper: #fcfcfa; --line: #e4e3de; --soft: #59616c;
  --accent: #0b5563; --cue: #1c212838; --type: "Inter", system-ui, -apple-system, "Segoe UI", sans-serif; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7e9ec; --paper: #13161a; --line: #2b3139; --soft: #a2aab5;
  --accent: #7ccad8; --cue: #e7e9ec4d; } }
body { font: 400 1rem/1.6 var(--type); color: var(--ink); background: var(--paper); margin: 0 auto;
  max-width: 64rem; padding: 2rem 1.5rem 3rem; }
h1, h2, h3 { line-height: 1.2; font-weight: 620; letter-spacing: -.018em; }
h2 { font-size: 1.3rem; margin-top: 2.6rem; }
.soft { color: var(--soft); } a { color: var(--accent); }
.scroll, figure > div { overflow-x: auto; background:
    linear-gradient(to left, var(--paper) 40%, transparent) right / 2.4rem 100% no-repeat local,
    linear-gradient(to left, var(--cue), transparent) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .93rem; }
th, td { padding: .5rem 1.4rem .5rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 500; font-size: .84rem; vertical-align: bottom; }
.num { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; } svg text { font-family: var(--type) !important; }
.dark { display: none; }
@media (prefers-color-scheme: dark) { .light { display: none; } .dark { display: block; } }
@media (max-width: 40rem) {
  body { padding: 1.25rem 1rem; } figure svg { max-width: none; } table { width: max-content; } td { max-width: 16rem; }
}
code { font-size: .9em; overflow-wrap: anywhere; }
"""


def _style() -> str:
    return STYLE.replace("FONT", base64.b64encode(FONT.read_bytes()).decode("ascii"))


def _svg(figure: Figure) -> str:
    """A figure as SVG to stand inside a page."""
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none"}):  # text stays text, in the page's typeface
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table; every cell is escaped. A column stands right if all its cells are numbers."""
    sides = [
        ' class="num"' if place and all(is_number(row[place]) for row in rows) else "" for place in range(len(head))
    ]
    top = "".join(f'<th scope="col"{side}>{escape(cell)}</th>' for cell, side in zip(head, sides, strict=True))
    lines = ("".join(f"<td{side}>{escape(cell)}</td>" for cell, side in zip(row, sides, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
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
<title>{escape(title)}</title><style>{_style()}</style></head><body>
<h1>{escape(title)}</h1>
{body}
<p class="soft">Made by <code>{escape(command)}</code>.</p>
</body></html>
"""
