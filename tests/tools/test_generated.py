"""What is generated is up to date: `make generated` rewrites it."""

import pytest
from tools import catalogs
from tools.generated import COMMAND, PAGES, ROOT, golden_files, stale, with_rows


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_parts_of_a_page_are_those_of_the_code(page):
    assert stale(page) is None, f"{page} is stale: run `{COMMAND}`"


def test_the_catalogs_have_the_messages_of_the_code():
    stale = [
        str(path.relative_to(ROOT))
        for path, text in catalogs.texts().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, f"{stale} are stale: run `{COMMAND}`, then translate what has no translation"


def test_no_golden_file_is_missing():
    missing = [str(path.relative_to(ROOT)) for path in golden_files() if not path.exists()]
    assert not missing, f"missing golden files: run `{COMMAND}`, and look at what it wrote: {missing}"


def test_only_the_rows_of_a_table_are_replaced():
    page = "before\n| a |\n|---|\n| old |\n| old |\nafter\n"
    assert with_rows(page, "| a |\n|---|\n", ["| new |"]) == "before\n| a |\n|---|\n| new |\nafter\n"
    with pytest.raises(SystemExit, match="no table"):
        with_rows(page, "| b |\n", [])
