"""What the docs of the coordinator list is what there is."""

from pathlib import Path

from parley.coordinator.problems import PROBLEMS
from parley.coordinator.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"


def test_every_setting_is_in_the_docs():
    page = (DOCS / "production.md").read_text(encoding="utf-8")
    for entry in Settings.describe():
        default = "" if entry["default"] == "" else f"`{entry['default']}`"
        row = f"| `--{entry['name'].replace('_', '-')}` | `{entry['variable']}` | {default} | {entry['help']} |"
        assert row in page, row


def test_every_problem_is_in_the_docs():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    for slug, kind in PROBLEMS.items():
        assert f"| `{slug}` | {kind.status} | {'yes' if kind.retry else 'no'} | {kind.title} |" in page, slug
