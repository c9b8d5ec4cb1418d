"""The documentation is one that people can read: no page without a place, no dead link, no more words than agreed."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Written by `make docs` from the code, or by `parley reproduce`.
MADE = {"_build", "notebooks", "reference", "reproduction"}
EVERY = sorted(page for page in DOCS.rglob("*.md") if not MADE & set(page.relative_to(DOCS).parts))
PAGES = [page for page in EVERY if "appendix" not in page.parts]
FENCED = re.compile(r"^```.*?^```", flags=re.MULTILINE | re.DOTALL)


def name(page):
    return page.relative_to(ROOT).as_posix()


def places():
    """Pages in the lists of the index."""
    lists = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text("utf-8"), flags=re.DOTALL)
    return [line.strip() for block in lists for line in block.splitlines() if line and not line.startswith(":")]


def test_every_page_has_one_place():
    """The appendices have theirs in docs/appendix/index.md, which lists all there are."""
    listed = places()
    wanted = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES} - {"index"}
    made = {"notebooks/researcher", "reference/commands", "reference/http-api", "reference/python/index"}
    assert len(listed) == len(set(listed))
    missing, gone = wanted - set(listed), set(listed) - wanted - made - {"appendix/index"}
    assert not missing, f"docs/index.md: put these pages under one of its captions: {sorted(missing)}"
    assert not gone, f"docs/index.md lists pages that are not there: {sorted(gone)}"


def anchors(page):
    """The anchors of a page's headings, as GitHub and MyST make them."""
    text = FENCED.sub("", page.read_text("utf-8"))
    found = set()
    for title in re.findall(r"^#{1,4} (.+?)\s*$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while f"{slug}-{number}" * bool(number) + slug * (not number) in found:
            number += 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


LINKED = [*EVERY, *ROOT.glob("*.md"), ROOT / "paper" / "paper.md", ROOT / "r" / "README.md"]


@pytest.mark.parametrize("page", LINKED, ids=name)
def test_no_link_is_dead(page):
    text = FENCED.sub("", page.read_text("utf-8"))
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        if target.startswith("figures/"):
            continue  # `make paper` draws it
        path = Path(os.path.normpath(page.parent / target)) if target else page
        assert path.exists(), f"{name(page)}: {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{name(page)}: {name(path)} has no heading #{anchor}"
