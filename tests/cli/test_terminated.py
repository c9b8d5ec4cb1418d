"""A command that is ended while it works says so."""

import os
import signal

import pytest

from parley.cli import main as command
from parley.cli.console import Terminated, progress_bar


def work():
    with progress_bar("working", 3, hidden=True) as advance:
        advance(1)
        os.kill(os.getpid(), signal.SIGTERM)
        advance(1)


def test_the_signal_ends_the_work_and_is_what_it_was_afterwards():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated):
        work()
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_command_says_that_it_did_not_finish(monkeypatch, capsys):
    monkeypatch.setattr(command, "main", lambda **_: work())
    with pytest.raises(SystemExit) as ended:
        command.run()
    assert ended.value.code == 143
    assert "asked to end (SIGTERM) before it was done" in " ".join(capsys.readouterr().err.split())
