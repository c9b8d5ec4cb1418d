"""What is computed once keeps nobody else waiting."""

import threading

import pytest

from parley.system.once import once

PATIENCE = 20  # seconds


class Text:
    def __init__(self, compute):
        self.compute, self.times = compute, 0

    @once
    def text(self):
        """The text."""
        self.times += 1
        return self.compute()


def test_it_is_computed_once():
    text = Text(lambda: "a")
    assert (text.text, text.text, text.times) == ("a", "a", 1)
    assert Text.text.__doc__ == "The text."


def test_a_failure_is_not_kept():
    text = Text(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        _ = text.text
    text.compute = lambda: "a"
    assert (text.text, text.times) == ("a", 2)


def test_one_that_takes_long_holds_up_none_of_another_object():
    """As long as the text of a ten-megabyte certificate was written, no report of anybody had its text."""
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def long():
        begun.set()
        return go_on.wait(PATIENCE)

    def short():
        assert Text(lambda: "b").text == "b"
        done.set()

    threads = [threading.Thread(target=lambda: Text(long).text), threading.Thread(target=short)]
    threads[0].start()
    assert begun.wait(PATIENCE)
    threads[1].start()
    try:
        assert done.wait(2), "another object waits"
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
