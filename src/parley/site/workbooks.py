"""Turn an uploaded file into the text of a table: CSV and TSV unchanged, an Excel workbook (.xlsx) from one sheet.

A workbook is a zip archive from somebody else, so its size is limited before and after unpacking, and so are rows and
columns. Content that a table cannot express (a formula, a date, merged cells) is refused with the name of the cell,
never guessed.
"""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import date, time
from typing import Any
from xml.etree import ElementTree

import openpyxl

from parley.errors import InvalidInput
from parley.text.translation import Translatable
from parley.validation.tables import EXCEL, OLD_EXCEL, cell_text

MOST_UNPACKED = 16 * 1024 * 1024
MOST_PARTS, MOST_SHEETS, MOST_ROWS, MOST_COLUMNS = 1_000, 20, 20_000, 200
FIRST_ROWS = 50  # the line with the names of the columns must be among these
KINDS = Translatable("a table: .xlsx, .csv or .tsv")
FILE = Translatable("file")
BOOK, SHEETS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s+ref="([A-Z0-9:]{1,40})"')
Known = Callable[[str], bool]  # whether a column of this name is known


def text_of(data: bytes, known: Known, columns: Sequence[str]) -> str:
    """The text of an uploaded table. If a workbook has no column that is `known`, the error names `columns`."""
    if data.startswith(EXCEL):
        return _workbook(data, known, columns)
    if data.startswith(OLD_EXCEL):
        raise _wrong(Translatable("an Excel file in the old format (.xls)"), KINDS)
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if b"\0" in data:
        raise _wrong(Translatable("a file that is not a table"), KINDS)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")  # Excel's CSV in Western Europe


def _wrong(found: str, allowed: str) -> InvalidInput:
    return InvalidInput(FILE, found=found, allowed=allowed)


def _workbook(data: bytes, known: Known, columns: Sequence[str]) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_parts(archive)
            book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, keep_links=False)
            try:
                sheet = _sheet(book, known, columns)
                _check_merged(archive, sheet.title)
                return _text(sheet, known)
            finally:
                book.close()
    except InvalidInput:
        raise
    except Exception as error:
        # A broken archive may make the reader raise anything; to the user it is a workbook that cannot be read.
        raise _wrong(Translatable("a workbook that cannot be read"), KINDS) from error


def _check_parts(archive: zipfile.ZipFile) -> None:
    """Refuse an archive that is too large when unpacked, is not a workbook, or contains a document type.

    The sizes are those that the archive states. An archive that understates one is refused when it is read.
    """
    parts = archive.infolist()
    if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_UNPACKED:
        found = Translatable("a workbook that becomes too large when it is unpacked")
        allowed = Translatable("at most {most} MB; save the sheet as CSV", most=MOST_UNPACKED // 1024**2)
        raise _wrong(found, allowed)
    if BOOK not in archive.namelist():
        raise _wrong(Translatable("an archive that is not an Excel workbook"), KINDS)
    for part in parts:
        with archive.open(part) as file:
            text = file.read()
            # No spreadsheet program writes a document type, which can make a small file expand without end. UTF-16 is
            # refused because it would hide a document type from this search.
            if b"<!DOCTYPE" in text or text.startswith((b"\xff\xfe", b"\xfe\xff", b"\0<", b"<\0")):
                raise _wrong(Translatable("a workbook that cannot be read"), KINDS)


def _sheet(book: Any, known: Known, columns: Sequence[str]) -> Any:
    """The only sheet whose first line of text names known columns; raise if there is none, or more than one."""
    if len(book.sheetnames) > MOST_SHEETS:
        found_many = Translatable("{count} sheets", count=len(book.sheetnames))
        raise _wrong(found_many, Translatable("up to {most} sheets", most=MOST_SHEETS))
    found = []
    for sheet in book.worksheets:
        header = next((row for row in _rows(sheet, FIRST_ROWS) if _said(row)), ())
        if any(known(cell_text(cell.value)) for cell in header):
            found.append(sheet)
    if len(found) != 1:
        names = ", ".join([sheet.title for sheet in found] or book.sheetnames)[:200]
        several = Translatable("several sheets with such columns, namely {names}", names=names)
        none = Translatable("the sheets {names}", names=names)
        allowed = Translatable("one sheet whose first line has the columns {columns}", columns=", ".join(columns))
        raise _wrong(several if found else none, allowed)
    return found[0]


def _rows(sheet: Any, most: int) -> Iterator[Sequence[Any]]:
    """Iterate over the first `most` rows, one at a time, since a single cell far down makes a sheet very long."""
    sheet.reset_dimensions()  # a file's stated size may be wrong
    return iter(sheet.iter_rows(max_row=most, max_col=MOST_COLUMNS))


def _said(row: Sequence[Any]) -> bool:
    return any(cell.value not in (None, "") for cell in row)


def _check_merged(archive: zipfile.ZipFile, title: str) -> None:
    """Refuse merged cells: only the first of them has a value, so the rows of the other cells would seem empty."""
    relations = {one.get("Id"): one.get("Target", "") for one in ElementTree.fromstring(archive.read(SHEETS))}
    for one in ElementTree.fromstring(archive.read(BOOK)).iter():
        if one.tag.endswith("}sheet") and one.get("name") == title:
            target = relations.get(one.get(RELATION), "").removeprefix("/").removeprefix("xl/")
            merged = MERGED.search(archive.read(f"xl/{target}"))
            if merged:
                place = merged[1].decode()
                found = Translatable("merged cells, {place}", place=place)
                raise _wrong(found, Translatable("a value in every cell: unmerge the cells"))


def _text(sheet: Any, known: Known) -> str:
    """The known columns as text, with a line for every line of the sheet, so that errors name the sheet's lines."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    kept: list[int] | None = None
    for line, row in enumerate(_rows(sheet, MOST_ROWS + 1), start=1):
        if line > MOST_ROWS:
            found = Translatable("more than {most} lines", most=MOST_ROWS)
            raise _wrong(found, Translatable("up to {most} lines", most=MOST_ROWS))
        if kept is None and _said(row):
            kept = [place for place, cell in enumerate(row) if known(cell_text(cell.value))]
        writer.writerow([_value(row[place]) if place < len(row) else "" for place in kept or ()])
    return out.getvalue()


def _value(cell: Any) -> str:
    """The text of a cell as in a CSV file; raise for content that such a file cannot express."""
    value = cell.value
    if value is None:
        return ""
    found = None
    if cell.data_type == "f":
        found = Translatable("a formula in cell {place}", place=cell.coordinate)
    elif cell.data_type == "e":
        found = Translatable("an error in cell {place}", place=cell.coordinate)
    elif isinstance(value, date | time):
        found = Translatable("a date in cell {place}", place=cell.coordinate)
    if found is not None:
        raise _wrong(found, Translatable("text or a number: copy the column, and paste it as values"))
    # Excel stores whole numbers as floats: write 3, not 3.0. From about 1e15 on, digits may be lost.
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return cell_text(value)
