"""The documentation is one that people can read: no page without a place, no dead link, no more words than agreed."""

import csv
import os
import re
from pathlib import Path

import pytest
from tools.pages import linked, read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Written by `make docs` from the code.
MADE = {"_build", "notebooks", "reference"}
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


# All there is to read: text, code and tables of pages and appendices, as `wc -w` counts. Not counted: the tables that
# commands write, which are files below docs/tables, and the reference that `make docs` writes from the code.
MOST_PAGES, MOST_WORDS = 35, 55_000


def words(page):
    return len(page.read_text("utf-8").split())


def test_people_can_read_all_of_it():
    longest = sorted(EVERY, key=words, reverse=True)[:5]
    assert len(PAGES) <= MOST_PAGES, "say it on a page that is there, or merge two"
    assert sum(map(words, EVERY)) <= MOST_WORDS, (
        f"cut; longest: {', '.join(f'{name(page)} {words(page):,}' for page in longest)}"
    )


def test_every_table_in_a_file_is_on_one_page():
    shown = [path for page in EVERY for path in linked(page, page.read_text("utf-8"))]
    assert sorted(shown) == sorted((DOCS / "tables").rglob("*.csv"))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "index.md"], ids=name)
def test_a_page_begins_with_who_it_is_for_and_what_it_answers(page):
    """In italics, below its title: `*For sites.* How to ...`."""
    text = re.sub(r"\A---\n.*?\n---\n", "", page.read_text("utf-8"), flags=re.DOTALL)
    title, _, rest = text.strip().partition("\n")
    assert title.startswith("# ")
    assert re.match(r"\*For [^*]+\.\* \S", rest.strip()), (
        f"{name(page)}: after the title comes `*For whom.* What it answers`"
    )


# Pages that repeat figures of appendices.
REPEATED = {
    "README.md": ("peers",),
    "docs/comparison.md": ("peers", "savings"),
    "docs/evidence.md": ("reliability", "benchmarks"),
    "docs/planning.md": ("planning",),
    "docs/regret.md": ("regret",),
    "docs/tolerance.md": ("tolerance",),
    "docs/experiments.md": ("reproduction",),
}


@pytest.mark.parametrize("page", REPEATED)
def test_figures_that_a_page_repeats_are_those_of_its_appendix(page):
    """Numbers of four digits and more, in tables; an appendix that was run again moves them."""
    rows = re.findall(r"^\|.*\|$", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE)
    shown = set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", "\n".join(rows)))
    known = "\n".join(read(DOCS / "appendix" / f"{one}.md") for one in REPEATED[page])
    assert shown
    assert not shown - set(re.findall(r"\b\d{1,3}(?:,\d{3})+\b", known)), f"{page}: bring it up to date"


def column(table, name):
    """Numbers of a column, without their errors."""
    rows = csv.DictReader((DOCS / "tables" / table).read_text("utf-8").splitlines())
    return [(row[name].split(" ± ")[0], row) for row in rows if row[name]]


def test_what_a_page_says_of_a_table_in_a_file_is_so():
    alarms = [
        found
        for name in ("delta 0.1, counted", "1e-05, tilted")
        for found in column("outcomes/guardrails-alarms.csv", name)
    ]
    stopped = column("outcomes/guardrails-found.csv", "stopped")
    large, small = ([share for share, row in stopped if row["harm"] == harm] for harm in ("20%", "10%"))
    page = (DOCS / "outcomes.md").read_text("utf-8")
    assert f"No entry is above {max(alarms, key=lambda one: float(one[0]))[0]}," in page
    assert (
        f"20 % is stopped in {min(large)} of the studies or more, one of 10 % in {min(small)} to {max(small)}." in page
    )
    first, second = (
        max((one for one, _ in column("covariates/ties.csv", name)), key=float)
        for name in ("best arm excluded, of 0.1", "of 1e-5, by tilted draws")
    )
    assert f"The largest error is {first} where 0.1 is allowed, and {second} where 1e-5 is." in (
        DOCS / "covariates.md"
    ).read_text("utf-8")
