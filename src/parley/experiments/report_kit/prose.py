"""Documents written once and rendered twice, as HTML and as Markdown: simple Markdown text with named blocks.

The text may contain headings, paragraphs, lists, indented commands, tables, `code`, **stress** and *emphasis*. A
`token` in the text is replaced by a block: a table, a picture (only in HTML, since tables contain the same numbers), or
a pair of texts, one for each rendering.
"""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from parley.experiments.report_kit.tables import Table
from parley.text.formatting import printable
from parley.text.translation import Translatable, gettext, translated

MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
TOKEN = re.compile("\x00([a-z_]+) (\\d+)")
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
# Characters that Markdown would read as markup; the underscore in a_b and the minus in -0.5 are left alone.
SPECIAL = re.compile(r"([\\`*<>|\[\]#~]|(?<![^\W_])_|_(?![^\W_])|&(?=#?\w+;)|\A[-+=](?=[-= ]|\Z))")
NUMBERED = re.compile(r"\A(\d+)(?=[.)](?: |\Z))")  # a number that would begin a list

CAPTIONS = TABLE, FIGURE = Translatable("Table"), Translatable("Figure")
Block = Table | Markup | tuple[Markup, str]  # a tuple is the block in HTML, and the same block in Markdown
Blocks = dict[tuple[str, int], Block]


def token(name: str, place: int = 0) -> str:
    """The placeholder for a block in the text; `place` distinguishes blocks of the same name."""
    return f"\x00{name} {place}"


def as_text(words: str) -> str:
    """Put a user's text on one line and escape it, so that no part of it is read as Markdown.

    >>> as_text("<b> *A*"), html_sections("## 1\\n" + as_text("<b> **A**"), {})[0][1]
    ('\\\\<b\\\\> \\\\*A\\\\*', Markup('<p>&lt;b&gt; **A**</p>'))
    >>> print(as_text("_not_ ~~so~~ &lt; a_b"), html_sections("## 1\\n" + as_text("_not_ ~~so~~ a_b \\\\_"), {})[0][1])
    \\_not\\_ \\~\\~so\\~\\~ \\&lt; a_b <p>_not_ ~~so~~ a_b \\_</p>
    >>> as_text("1. A"), as_text("- B"), as_text("-0.5")
    ('1\\\\. A', '\\\\- B', '-0.5')
    """
    return NUMBERED.sub(r"\1\\", SPECIAL.sub(r"\\\1", printable(" ".join(words.split()))))


def html_sections(text: str, blocks: Blocks) -> list[tuple[str, Markup]]:
    """Render every section as its title and its body in HTML; all text is escaped."""
    _, *parts = SECTION.split(text)
    return [(title, _html(body, blocks)) for title, body in zip(parts[::2], parts[1::2], strict=True)]


def markdown_text(title: str, text: str, blocks: Blocks) -> str:
    """Render the whole document in Markdown, with numbered sections."""
    for place, section in enumerate(SECTION.findall(text), start=1):
        text = text.replace(f"## {section}", f"## {place}. {section}", 1)

    def shown(found: re.Match[str]) -> str:
        block = blocks.get((found[1], int(found[2])))
        return block.markdown(as_text) if isinstance(block, Table) else block[1] if isinstance(block, tuple) else ""

    text = TOKEN.sub(shown, text)
    return f"# {title}\n\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _html(text: str, blocks: Blocks) -> Markup:
    parts = TOKEN.split(text)  # repeats of three: words, the name of a block, its number; ends with words
    html = [_rendered(parts[0])]
    for name, place, words in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        block = blocks.get((name, int(place)), Markup(""))
        html += [block.html() if isinstance(block, Table) else block[0] if isinstance(block, tuple) else block]
        html += [_rendered(words)]
    return Markup("\n").join(part for part in html if part)


def _rendered(text: str) -> Markup:
    """Convert Markdown to HTML: raw HTML is escaped, captions get a class, and tables are rendered by `Table`."""
    tokens, parts, begun = MARKDOWN.parse(text), list[Markup](), 0
    captions = ("**Table ", "**Figure ", *(f"**{translated(kind)} " for kind in CAPTIONS))
    for place, one in enumerate(tokens):
        if one.type == "paragraph_open" and tokens[place + 1].content.startswith(captions):
            one.attrSet("class", "caption")
        if one.type == "table_open":
            parts.append(_render(tokens[begun:place]))
            begun = place
        if one.type == "table_close":
            parts.append(_table(tokens[begun:place]))
            begun = place + 1
    return Markup("").join([*parts, _render(tokens[begun:])]).strip()


def _render(tokens: Sequence[Token]) -> Markup:
    return Markup(MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}))


def _table(tokens: Sequence[Token]) -> Markup:
    rows: list[list[Markup]] = []
    for one in tokens:
        if one.type == "tr_open":
            rows.append([])
        if one.type == "inline":
            rows[-1].append(_render([one]))
    return Table.of_text("", rows[0], rows[1:]).html()


def words_of_reader() -> dict[str, str]:
    """The words for arms, agents, draws and rewards in the reader's field and language."""
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
