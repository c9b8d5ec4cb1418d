"""The words of docs/glossary.md, "Names not to use", are not used: neither in names nor, where it says so, in prose."""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest
from tests.house.importers import SRC, nodes, tree
from tools.pages import read

ROOT = SRC.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
WHERE = ("everywhere", "names", "classes and modules")
FUNCTIONS, NAMED = (ast.FunctionDef, ast.AsyncFunctionDef), (ast.Name, ast.Attribute)  # asked of every node


def rows():
    """Word -> where it is not used, from the table of the glossary."""
    section = read(GLOSSARY).partition("## Names not to use\n")[2].partition("\n## ")[0]
    found = {}
    for line in re.findall(r"^\| (`.*) \|$", section, flags=re.MULTILINE):
        words, _, where = (cell.strip() for cell in line.split(" | "))
        assert where in WHERE, line
        found |= dict.fromkeys(re.findall(r"`([^`]+)`", words), where)
    return found


@cache
def parts(name):
    """The words of an identifier: `lost_site`, `LostSite` and `LOST_SITE` have the same."""
    return tuple(word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name))


def defined(of):
    """(line, name, whether it is a class) of everything that a module gives a name."""
    for node in nodes(of):
        if isinstance(node, ast.ClassDef):
            yield node.lineno, node.name, True
        elif isinstance(node, FUNCTIONS):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, False
        elif isinstance(node, NAMED) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr, False


def prose(path, text):
    """(line, text) of what people read: a page without its code, or docstrings and comments."""
    if path.suffix == ".md":
        plain = re.sub(r"```.*?```", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
        plain = plain.partition("## Names not to use\n")[0] if path == GLOSSARY else plain
        yield from ((number, re.sub(r"`[^`]*`", "", line)) for number, line in enumerate(plain.splitlines(), start=1))
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (
            token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""'))
        ):
            lines = token.string.splitlines()
            yield from ((token.start[0] + number, re.sub(r"`[^`]*`", "", line)) for number, line in enumerate(lines))


def uses(path, words):
    """Every place where a file uses one of the words."""
    text = path.read_text(encoding="utf-8")
    everywhere = [word for word, where in words.items() if where == "everywhere"]
    spoken = re.compile(rf"\b(?:{'|'.join(map(re.escape, everywhere)) or '$^'})\b", re.IGNORECASE)
    for number, line in prose(path, text) if spoken.search(text) else ():
        for found in spoken.findall(line):
            yield number, found
    if path.suffix != ".py":
        return
    named = {word: where for word, where in words.items() if " " not in word}
    for number, name, is_class in [*defined(tree(path)), (1, path.stem, True)]:
        for word in parts(name):
            if word in named and (is_class or named[word] != "classes and modules"):
                yield number, name


def files():
    pages = [page for page in (ROOT / "docs").rglob("*.md") if not {"_build", "python"} & set(page.parts)]
    return [*sorted((SRC / "parley").rglob("*.py")), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(pages)]


def test_no_name_of_the_list_is_used():
    words = rows()
    assert len(words) > 20
    found = [f"{path.relative_to(ROOT)}:{line}: {name}" for path in files() for line, name in uses(path, words)]
    assert not found, "docs/glossary.md has better names for these:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.py", "class TermSheet: pass"), ("a.py", "def f(term): pass"), ("a.py", "x.term = 1"), ("a.py", "# was told"),
     ("a.py", '"""It told."""'), ("term.py", "x = 1"), ("a.md", "It told us."), ("a.md", "| told | x |"),
     ("a.py", "class Forward: pass")],
)  # fmt: skip
def test_each_way_to_use_one_is_seen(tmp_path: Path, name, text):
    words = {"term": "names", "told": "everywhere", "forward": "classes and modules"}
    (tmp_path / name).write_text(text)
    assert list(uses(tmp_path / name, words))


def test_words_within_words_and_code_on_pages_are_fine(tmp_path):
    words = {"term": "names", "told": "everywhere", "forward": "classes and modules"}
    for name, text in {"a.py": "def terminal(forward): pass  # the term", "b.md": "`told`\n```\ntold\n```\n"}.items():
        (tmp_path / name).write_text(text)
        assert not list(uses(tmp_path / name, words))
