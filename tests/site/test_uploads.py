"""Tables that people upload: a preview before anything is written, workbooks, and what is refused in a sentence."""

import io
import re
import tracemalloc
import zipfile
from datetime import date

import openpyxl
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.agent.test_site_page import RULES, desk  # noqa: F401

from parley.agent.outcomes import OutcomeRules
from parley.cli.site import site_command
from parley.site import workbooks

PAIN = OutcomeRules(name="Pain", low=0.0, high=10.0)
FRENCH, GERMAN = {"Accept-Language": "fr"}, {"Accept-Language": "de"}


def workbook(*rows, title="Tabelle1", others=(), change=lambda _: None):
    """The bytes of a workbook whose sheet has these rows; `others` are further sheets."""
    book = openpyxl.Workbook()
    book.active.title = title
    for row in rows:
        book.active.append(row)
    change(book.active)
    for name, lines in others:
        sheet = book.create_sheet(name)
        for line in lines:
            sheet.append(line)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def upload(open_, data, status=200, name="outcomes.xlsx", **headers):
    sent = {"file": (name, data, "application/octet-stream")}
    answer = open_.browser.post("/", data={"do": "table", "table": ""}, files=sent, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.text


@pytest.fixture
def ward(desk):  # noqa: F811
    open_ = desk(draws=(20, 20))
    for number in range(1, 7):
        open_.site.assign(f"p-{number}")
    return open_


def confirmed(open_, page):
    """Send the form of the preview."""
    text = page.partition('name="table" hidden>')[2].partition("</textarea>")[0]
    seen = re.search('name="seen" value="([0-9a-f]{64})"', page)[1]
    return open_.browser.post("/", data={"do": "take", "seen": seen}, files={"table": (None, text)}).text


TABLES = {
    "outcomes.xlsx": workbook(["Participant", "note", "Outcome"], ["p-1", date(2026, 1, 1), "yes"], ["p-2", "=1+1", 0]),
    "outcomes.csv": "Teilnehmer;Ergebnis\np-1;ja\np-2;nein\n".encode("cp1252"),
    "outcomes.tsv": "participant\toutcome\np-1\t1\np-2\t0\n".encode("utf-16"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_preview_says_what_every_row_will_do_and_writes_nothing(ward, name):
    ward.site.outcome("p-2", 1.0)
    before = ward.site.status()
    page = upload(ward, TABLES[name], name=name)
    assert "Changes that the table would make" in page
    assert "2 outcomes to enter." in page
    first, second = (
        '<th scope="row">p-2</th><td class="text">no</td><td>yes</td>',
        '<th scope="row">p-1</th><td class="text">yes</td><td>–</td>',
    )
    assert page.index(first) < page.index(second), "what is replaced comes first"
    assert ward.site.status() == before
    assert "2 outcomes entered." in confirmed(ward, page)
    assert [ward.site.people[key].reward for key in ("p-1", "p-2")] == [1.0, 0.0]
    again = upload(ward, TABLES[name], name=name)
    assert "2 outcomes are already known." in again
    assert "Save the whole table" not in again


def test_what_somebody_changed_after_the_preview_is_shown_again_and_not_overwritten(ward):
    page = upload(ward, TABLES["outcomes.csv"])
    ward.site.outcome("p-2", 1.0)
    before = ward.site.status()
    again = confirmed(ward, page)
    assert "Entries have changed since you checked the table." in again
    assert '<th scope="row">p-2</th><td class="text">no</td><td>yes</td>' in again
    assert ward.site.status() == before
    assert ward.site.people["p-2"].reward == 1.0
    assert "2 outcomes entered." in confirmed(ward, again), "whoever has seen that can confirm it"
    assert ward.site.people["p-2"].reward == 0.0


def test_keys_that_an_export_escaped_come_in_again(desk):  # noqa: F811
    open_ = desk(draws=(20, 20))
    for key in ("-007", "=3", "'-008"):
        open_.site.assign(key)
        open_.site.outcome(key, 1.0)
    text = open_.browser.get("/export.csv").content
    assert b"'-007" in text
    assert "3 outcomes are already known." in upload(open_, text), "a key with an apostrophe of its own too"
    assert "1 outcome to enter." in upload(open_, b"participant;outcome\n'-007;0\n")


def test_rows_that_fail_are_named_in_the_readers_language_and_nothing_can_be_entered(ward):
    page = upload(ward, workbook(["participant", "outcome"], ["p-1", 1], ["p-99", 1], ["p-3", 45678]), **GERMAN)
    assert "Aus der Tabelle wurde nichts übernommen: 2 Zeilen sind fehlerhaft." in page
    assert "Eingegeben: 45678.0. Zulässig: ja (1) oder nein (0)." in page, "a date as a number"
    assert 'value="take"' not in page
    assert "p-99\t1" in page, "the table is there to be mended"


def merged(sheet):
    sheet.merge_cells("A2:A3")


WRONG = {
    "formula": (workbook(["participant", "outcome"], ["p-1", "=1=1"]), "a formula in cell B2", "une formule dans la"),
    "date": (workbook(["participant", "outcome"], [date(2026, 1, 2), 1]), "a date in cell A2", "une date dans la"),
    "error": (workbook(["participant", "outcome"], ["p-1", "#N/A"]), "an error in cell B2", "une erreur dans la"),
    "merged": (
        workbook(["participant", "outcome"], ["p-1", 1], ["p-2", 1], change=merged),
        "merged cells, A2:A3",
        "des cellules fusionnées",
    ),
    "wrong sheet": (
        workbook(["a", "b"], [1, 2], title="Notes"),
        "the sheets Notes. Allowed: one sheet whose first line has the columns participant, outcome",
        "une feuille dont la première ligne a les colonnes",
    ),
    "two sheets": (
        workbook(["participant", "outcome"], title="May", others=[("June", [["participant", "outcome"]])]),
        "several sheets with such columns, namely May, June",
        "plusieurs feuilles",
    ),
    "no workbook": (b"PK\x03\x04 and nothing", "a workbook that cannot be read", "un classeur illisible"),
    "old": (b"\xd0\xcf\x11\xe0" + bytes(100), "an Excel file in the old format", "un fichier Excel de l’ancien type"),
    "picture": (b"\x89PNG\r\n\x1a\n\0\0\0", "a file that is not a table", "un fichier qui n’est pas un tableau"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_table_cannot_say_is_refused_in_a_sentence(ward, name):
    data, english, french = WRONG[name]
    before = ward.site.status()
    assert english in upload(ward, data, 422)
    assert french in upload(ward, data, 422, **FRENCH)
    assert ward.site.status() == before


def packed(parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_a_bomb_is_refused_before_it_is_unpacked(ward):
    bomb = packed({"xl/workbook.xml": bytes(workbooks.MOST_UNPACKED + 1)})
    assert len(bomb) < 200_000
    assert "becomes too large when it is unpacked" in upload(ward, bomb, 422)
    many = packed({f"xl/{number}": b"" for number in range(workbooks.MOST_PARTS + 1)})
    assert "becomes too large when it is unpacked" in upload(ward, many, 422)
    assert "not an Excel workbook" in upload(ward, packed({"content.xml": b"<office/>"}), 422)
    entities = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbbbbbb">]><a>&b;</a>'
    assert "cannot be read" in upload(ward, packed({"xl/workbook.xml": entities}), 422)


def test_sheets_of_one_cell_far_down_take_no_memory(ward):
    """A reader fills the gap: forty sheets of 300 bytes became a gigabyte."""
    book = openpyxl.Workbook()
    for sheet in [book.active, *(book.create_sheet() for _ in range(9))]:
        sheet["A1"] = "participant"
        sheet.cell(workbooks.MOST_ROWS, workbooks.MOST_COLUMNS, 1)
    out = io.BytesIO()
    book.save(out)
    tracemalloc.start()
    assert "several sheets with such columns" in upload(ward, out.getvalue(), 422)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * len(out.getvalue()) + 10_000_000
    for _ in range(workbooks.MOST_SHEETS):
        book.create_sheet()
    out = io.BytesIO()
    book.save(out)
    assert f"up to {workbooks.MOST_SHEETS} sheets" in upload(ward, out.getvalue(), 422)


def test_a_document_type_after_a_long_comment_is_refused(ward):
    data = b"<!--" + b" " * 5_000 + b'--><!DOCTYPE a [<!ENTITY b "b">]><a>&b;</a>'
    for text in (data, data.decode().encode("utf-16")):
        assert "cannot be read" in upload(ward, packed({"xl/workbook.xml": text}), 422)


def test_an_archive_that_states_less_than_it_has_is_refused(ward):
    data = bytearray(workbook(["participant", "outcome"], *(["p-1", 1] for _ in range(2_000))))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = archive.getinfo("xl/worksheets/sheet1.xml").file_size
    lying = bytes(data).replace(size.to_bytes(4, "little"), (100).to_bytes(4, "little"))
    assert lying != data
    assert "cannot be read" in upload(ward, lying, 422)


def test_a_sheet_with_more_lines_than_any_ward_has_is_refused(ward, monkeypatch):
    monkeypatch.setattr(workbooks, "MOST_ROWS", 5)
    rows = [[f"p-{number}", 1] for number in range(9)]
    assert "more than 5 lines" in upload(ward, workbook(["participant", "outcome"], *rows), 422)


def test_everybody_is_exported_without_arms_unless_the_site_is_not_masked(ward):
    ward.site.outcome("p-1", 1.0)
    ward.site.missing("p-2")
    ward.site.void("p-3", reason="why", who="N.")
    sent = ward.browser.get("/export.csv")
    lines = sent.content.decode("utf-8-sig").splitlines()
    assert "attachment" in sent.headers["content-disposition"]
    assert lines[0] == "participant,Phase,Stratum,Assigned,Status,outcome"
    assert [line.rsplit(",", 2)[-1] for line in lines[1:4]] == ["1", "missing", ""]
    assert "voided" in lines[3]
    said = CliRunner().invoke(site_command, ["--outbox", str(ward.folder), "export"])
    assert len(said.stdout.splitlines()) == len(lines), said.output
    assert "Nothing has been entered yet." in upload(ward, sent.content, name="people.csv"), "it can be uploaded again"
    ward.close()
    ward.rules = replace(RULES, masked=False)
    ward.open()
    header, first, *_ = ward.browser.get("/export.csv").content.decode("utf-8-sig").splitlines()
    assert header.split(",")[5] == "Treatment"
    assert first.split(",")[5] in ("x", "y")


def test_a_form_of_many_parts_is_refused(ward):
    parts = {f"f{number}": (None, "x") for number in range(100)}
    assert ward.browser.post("/", files=parts).status_code == 400
