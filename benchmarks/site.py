"""Response times of a site's page with many people: the list, a search, and the preview of a table."""

from __future__ import annotations

import io
import time
from tempfile import TemporaryDirectory

import openpyxl

from benchmarks.common import Section
from parley.agent.journal import RulesSeen
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.site.tables import take_table, uploaded_text
from parley.text.translation import reading

SIZES = (500, 5_000)


def workbook(people: int) -> bytes:
    """A workbook with an outcome for everybody, and two columns that are not needed."""
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("outcomes")
    sheet.append(["participant", "ward", "outcome", "note"])
    for number in range(people):
        sheet.append([f"P-{number:05}", "north", number % 2, "seen by the nurse"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def sections() -> list[Section]:
    rows = []
    for size in SIZES:
        with TemporaryDirectory() as folder, reading("trial", "de"):
            rules = RulesSeen(low=0.0, high=1.0, values=(0.0, 1.0), flexible=True, audience="trial")
            site = Site(folder, study="s", agent="x", rules=rules, key=b"k" * 32)
            site.begin(phase=1, plan="ab", arms=("A", "B"), draws=(size // 2, size // 2))
            for number in range(size):
                site.assign(f"P-{number:05}")
            data, begun = workbook(size), time.process_time()
            text = uploaded_text(Strata([site]), data)
            read = time.process_time() - begun
            taken = take_table(Strata([site]), text, take=False)
            whole = time.process_time() - begun
            assert (len(taken.changes), taken.wrong) == (size, [])
            rows.append([f"{size:,}", f"{whole:.2f}", f"{read / whole:.0%}", f"{1e6 * whole / size:,.0f}"])
            site.close()
    return [
        Section(
            title="Preview of a workbook (.xlsx)",
            words="From the bytes that were sent to what each row would do; nothing is written.",
            columns=("rows", "seconds of a processor", "of it reading the workbook", "microseconds a row"),
            rows=rows,
        )
    ]
