import multiprocessing
import os
import signal

import pytest
from msgspec.structs import replace

from parley.agent.outbox import Outbox
from parley.errors import Interrupted, InvalidInput
from parley.protocol import Receipt, Report


def report(phase=1, value=1.0):
    return Report(
        study="s", phase=phase, agent="a", plan="b" * 64, counts=(1,), sums=(value,), squares=(value * value,)
    )


def receipt(phase=1):
    return Receipt(study="s", phase=phase, agent="a", report=report(phase).digest, sequence=phase + 1, head="a" * 64)


def test_what_is_kept_is_found_again_and_the_first_report_stays(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        box.keep(report(value=1.0))
        box.keep(report(value=2.0))
    with Outbox(tmp_path, study="s", agent="a") as box:
        assert box.pending() == report(value=1.0)
        box.acknowledge(receipt())
        assert box.pending() is None
        assert box.last_receipt() == receipt()
        assert box.report(1) == report(value=1.0)


def test_reports_are_handed_over_oldest_first(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        for phase in (2, 10, 1):
            box.keep(report(phase))
        order = []
        while (pending := box.pending()) is not None:
            order.append(pending.phase)
            box.acknowledge(receipt(pending.phase))
        assert order == [1, 2, 10]
        assert box.last_receipt().phase == 10


def test_a_draw_that_was_interrupted_is_not_begun_again_unless_it_can_be_repeated(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as box:
        box.begin(1, repeatable=False)
    with Outbox(tmp_path, study="s", agent="a") as box:
        with pytest.raises(Interrupted, match="unknown what was drawn"):
            box.begin(1, repeatable=False)
        box.begin(1, repeatable=True)
        box.keep(report(1))
        box.begin(2, repeatable=False)
        box.abandon(2)
        box.begin(2, repeatable=False)


def test_two_processes_cannot_hold_one_outbox(tmp_path):
    with Outbox(tmp_path, study="s", agent="a"), pytest.raises(InvalidInput, match="draw twice"):
        Outbox(tmp_path, study="s", agent="a")
    Outbox(tmp_path, study="s", agent="b").close()


def test_names_that_look_alike_have_their_own_folders(tmp_path):
    with Outbox(tmp_path, study="s", agent="a b") as one, Outbox(tmp_path, study="s", agent="a?b") as other:
        assert one.folder != other.folder


HOSPITALS = ("北京协和医院", "北京协和医学院", "北京协和门诊部")  # the first twelve bytes of each are the same


def test_names_that_begin_alike_have_their_own_folders(tmp_path):
    folders = set()
    for agent in HOSPITALS:
        with Outbox(tmp_path, study="s", agent=agent) as box:
            folders.add(box.folder)
            assert box.pending() is None
            box.keep(replace(report(), agent=agent))
    assert len(folders) == len(HOSPITALS)


def _write_until_killed(folder):
    with Outbox(folder, study="s", agent="a") as box:
        phase = 0
        while True:
            phase += 1
            box.keep(report(phase))
            box.acknowledge(receipt(phase))
            (folder / "reached").write_text(str(phase))


@pytest.mark.kills
@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11])
def test_a_kill_at_any_moment_leaves_whole_files(tmp_path, delay):
    process = multiprocessing.get_context("spawn").Process(target=_write_until_killed, args=(tmp_path,))
    process.start()
    while not (tmp_path / "reached").exists():
        process.join(0.01)
    process.join(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    reached = int((tmp_path / "reached").read_text() or 0)
    with Outbox(tmp_path, study="s", agent="a") as box:
        phases = [one.phase for one in box.receipts()]
        assert phases == list(range(1, len(phases) + 1))
        assert len(phases) >= reached, "what was acknowledged is there"
        for phase in phases:
            assert box.report(phase) == report(phase)
