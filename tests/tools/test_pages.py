"""Tables that commands write are files, and pages link to them."""

import pytest
from tools.pages import between, cells, files, fill, linked, part, read, table, write

NUMBERS = table(["N", "saving | `rule`"], [["1", "25.2"], ["2", ""]])
LONG = table(["row"], [[str(row)] for row in range(11)])


@pytest.fixture
def page(tmp_path):
    (tmp_path / "appendix").mkdir()
    return tmp_path / "appendix" / "peers.md"


def test_a_page_is_read_as_it_was_written(page, tmp_path):
    text = f"# Peers\n\n{NUMBERS}\n\n## The paper's arms\n\nWords.\n\n{NUMBERS}\n\n{LONG}\n"
    write(page, text)
    stored = page.read_text()
    assert "|" not in stored
    assert "[peers.csv](../tables/peers/peers.csv)\n\n## The paper's arms\n\nWords.\n" in stored
    names = ["peers.csv", "the-papers-arms.csv", "the-papers-arms-2.csv"]
    assert linked(page, stored) == [tmp_path / "tables" / "peers" / name for name in names]
    assert (tmp_path / "tables" / "peers" / "peers.csv").read_text() == "N,saving | `rule`\n1,25.2\n2,\n"
    assert read(page) == text
    write(page, read(page))
    assert page.read_text() == stored


def test_a_part_is_filled_and_what_it_linked_to_before_is_removed(page, tmp_path):
    write(page, f"# Peers\n\n{NUMBERS}\n\n<!-- own -->\n{NUMBERS}\n\n### More\n\n{LONG}\n<!-- /own -->\n\nEnd.\n")
    folder = tmp_path / "tables" / "peers"
    assert {path.name for path in folder.iterdir()} == {"peers.csv", "own.csv", "more.csv"}
    fill(page, "own", LONG)
    assert {path.name for path in folder.iterdir()} == {"peers.csv", "own.csv"}
    assert read(page) == f"# Peers\n\n{NUMBERS}\n\n<!-- own -->\n{LONG}\n<!-- /own -->\n\nEnd.\n"
    assert part(page, "own") == LONG


def test_outside_the_appendix_short_tables_and_those_of_people_stay(tmp_path):
    page = tmp_path / "weights.md"
    page.write_text(f"{LONG}\n\n<!-- a -->\n<!-- /a -->\n<!-- b -->\n<!-- /b -->\n")
    fill(page, "a", NUMBERS)
    fill(page, "b", LONG)
    link = "[b.csv](tables/weights/b.csv)"
    assert page.read_text() == f"{LONG}\n\n<!-- a -->\n{NUMBERS}\n<!-- /a -->\n<!-- b -->\n{link}\n<!-- /b -->\n"


def test_parts_with_the_same_heading_keep_their_own_tables(page, tmp_path):
    write(page, "# Peers\n\n<!-- a -->\n<!-- /a -->\n<!-- b -->\n<!-- /b -->\n")
    for name, told in (("a", NUMBERS), ("b", LONG), ("a", NUMBERS)):
        fill(page, name, f"### By arm\n\n{told}")
    assert (part(page, "a"), part(page, "b")) == (f"### By arm\n\n{NUMBERS}", f"### By arm\n\n{LONG}")
    assert len(list((tmp_path / "tables" / "peers").iterdir())) == 2


def test_a_cell_has_one_line():
    assert cells(table(["failure"], [["first\nsecond\u2028third"], ["b"]])) == [
        ["failure"],
        ["first second third"],
        ["b"],
    ]


def test_a_table_survives_its_file(page):
    assert cells(NUMBERS) == [["N", "saving | `rule`"], ["1", "25.2"], ["2", ""]]
    told, made = files(page, "no table here\n| nor here |\n")
    assert (told, made) == ("no table here\n| nor here |\n", {})


def test_only_what_stands_between_marks_is_replaced():
    page = "before\n<!-- x -->\nold\n<!-- /x -->\nafter\n"
    assert between(page, "x", "new") == page.replace("old", "new")
    with pytest.raises(SystemExit, match="no marks"):
        between(page, "y", "new")
