"""Response times of a site with many people: one assignment, and the preview of a table."""

from __future__ import annotations

import io
import time
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import numpy as np
import openpyxl
from starlette.testclient import TestClient

from benchmarks.common import Section
from parley.agent.journal import RulesSeen
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.site.access import Access
from parley.site.app import create_app
from parley.site.tables import take_table, uploaded_text
from parley.text.translation import reading

SIZES = (500, 5_000)
NEWCOMERS = 500  # assigned one after another and timed
CODE = "open-sesame-42"


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


def seconds_of_assignments(people: int) -> list[float]:
    """Seconds of every assignment over the API of a site that has so many people, without a network."""
    with TemporaryDirectory() as folder, Site(folder, study="s", agent="x", key=b"k" * 32) as site:
        half = (people + NEWCOMERS) // 2
        site.begin(phase=1, plan="ab", arms=("A", "B"), draws=(half, half))
        for number in range(people):
            site.assign(f"P-{number:05}")
        runtime = SimpleNamespace(site=site, noted=lambda: None)  # what an assignment needs of it
        app = create_app([runtime], Access(host="127.0.0.1", code=CODE))
        taken = []
        with TestClient(app, base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {CODE}"}) as client:
            for number in range(people, people + NEWCOMERS):
                begun = time.perf_counter()
                answer = client.post("/v1/assignments", json={"participant": f"P-{number:05}"})
                taken.append(time.perf_counter() - begun)
                assert answer.status_code == 201, answer.text
        return taken


def assignments() -> Section:
    """How long somebody at a site waits for an arm."""
    rows = []
    for size in (0, *SIZES):
        typical, slow = 1000 * np.percentile(seconds_of_assignments(size), [50, 99])
        rows.append([f"{size:,}", f"{typical:.1f}", f"{slow:.1f}"])
    return Section(
        title="One assignment at a site",
        words=f"From `POST /v1/assignments` to the arm, which is on the disk before it is told: {NEWCOMERS} newcomers, "
        "one after another, in one process and without a network.",
        columns=("people before", "milliseconds, median", "milliseconds, 99th percentile"),
        rows=rows,
    )


def previews() -> Section:
    """What the preview of an uploaded workbook costs."""
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
    return Section(
        title="Preview of a workbook (.xlsx)",
        words="From the bytes that were sent to what each row would do; nothing is written.",
        columns=("rows", "seconds of a processor", "of it reading the workbook", "microseconds a row"),
        rows=rows,
    )


def sections() -> list[Section]:
    return [assignments(), previews()]
