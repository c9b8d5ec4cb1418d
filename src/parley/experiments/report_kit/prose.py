"""A document of one content and two renderings: text in a little Markdown with blocks by name, as HTML or as Markdown.

The text has headings, paragraphs, lists, indented commands, tables, `code`, **stress** and *emphasis*. Where
a `token` stands, a block follows: a table, a picture (on a page alone: tables say the same), or another one for
either rendering.
"""

import re

from markupsafe import Markup, escape

from parley.experiments.report_kit.tables import Table
from parley.text.formatting import printable
from parley.text.translation import gettext

TOKEN = re.compile("\x00([a-z_]+) (\\d+)")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
SPECIAL = re.compile(r"([\\`*<>|\[\]#~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;))")  # a_b is no emphasis

Block = Table | Markup | tuple[Markup, str]  # the last: on a page, and in Markdown
Blocks = dict[tuple[str, int], Block]


def token(name: str, place: int = 0) -> str:
    """Where a block stands in the text."""
    return f"\x00{name} {place}"


def as_text(words: str) -> str:
    """Words of a user, of which nothing is read as Markdown; in one line.

    >>> as_text("<b> *A*"), html_sections("## 1\\n" + as_text("<b> **A**"), {})[0][1]
    ('\\\\<b\\\\> \\\\*A\\\\*', Markup('<p>&lt;b&gt; **A**</p>'))
    >>> print(as_text("_not_ ~~so~~ &lt; a_b"), html_sections("## 1\\n" + as_text("_not_ ~~so~~ a_b \\\\_"), {})[0][1])
    \\_not\\_ \\~\\~so\\~\\~ \\&lt; a_b <p>_not_ ~~so~~ a_b \\_</p>
    """
    return SPECIAL.sub(r"\\\1", printable(" ".join(words.split())))


def html_sections(text: str, blocks: Blocks) -> list[tuple[str, Markup]]:
    """The title and the body of every section; every word is escaped."""
    _, *parts = SECTION.split(text)
    return [(title, _html(body, blocks)) for title, body in zip(parts[::2], parts[1::2], strict=True)]


def markdown_text(title: str, text: str, blocks: Blocks) -> str:
    """The whole document, its sections numbered."""
    for place, section in enumerate(SECTION.findall(text), start=1):
        text = text.replace(f"## {section}", f"## {place}. {section}", 1)

    def shown(found: re.Match[str]) -> str:
        block = blocks.get((found[1], int(found[2])))
        return block.markdown(as_text) if isinstance(block, Table) else block[1] if isinstance(block, tuple) else ""

    text = TOKEN.sub(shown, text)
    return f"# {title}\n\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _html(text: str, blocks: Blocks) -> Markup:
    parts, items = [], list[Markup]()
    for part in re.split(r"\n\s*\n|\n(?=- )", text.strip("\n")):
        if part.startswith("- "):
            items.append(Markup("<li>{}</li>").format(_inline(part[2:])))
            continue
        if items:
            parts.append(Markup("<ul>{}</ul>").format(Markup("\n").join(items)))
            items = []
        parts.append(_part(part, blocks))
    if items:
        parts.append(Markup("<ul>{}</ul>").format(Markup("\n").join(items)))
    return Markup("\n").join(parts)


def _part(part: str, blocks: Blocks) -> Markup:
    found = TOKEN.fullmatch(part.strip())
    if found:
        block = blocks.get((found[1], int(found[2])), Markup(""))
        return block.html() if isinstance(block, Table) else block[0] if isinstance(block, tuple) else block
    if part.lstrip().startswith("|"):
        lines = (_plain(line.strip()[2:-2].replace(" | ", "\0")).split("\0") for line in part.split("\n") if line)
        head, _, *rows = ([cell.strip() for cell in line] for line in lines)
        return Table.of_text("", head, rows).html()
    if part.startswith("    "):
        return Markup("<pre><code>{}</code></pre>").format("\n".join(line[4:] for line in part.splitlines()))
    if part.startswith("### "):
        return Markup("<h3>{}</h3>").format(_inline(part[4:]))
    kind = Markup(' class="caption"') if part.startswith(("**Table ", "**Figure ")) else ""
    return Markup("<p{}>{}</p>").format(kind, _inline(part.strip())) if part.strip() else Markup("")


def _inline(text: str) -> Markup:
    """Escaped, with `code`, **stress** and *emphasis*, and what `as_text` marked as it was."""
    shown = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", str(escape(text)))
    shown = re.sub(r"(?<![\\*])\*(?=\S)([^*]+)(?<![\\\s])\*(?!\*)", r"<em>\1</em>", shown)
    shown = re.sub(r"(?<!\\)`([^`]+)`", r"<code>\1</code>", shown)
    return Markup(_plain(shown))


def _plain(text: str) -> str:
    """Without the marks of `as_text`."""
    return re.sub(r"\\([^\w\s]|_)", r"\1", text)


def words_of_reader() -> dict[str, str]:
    """What the reader calls things."""
    return {
        "agent": gettext("agent"),
        "agents": gettext("agents"),
        "arm": gettext("arm"),
        "arms": gettext("arms"),
        "draw": gettext("draw"),
        "draws": gettext("draws"),
        "reward": gettext("reward"),
        "rewards": gettext("rewards"),
    }
