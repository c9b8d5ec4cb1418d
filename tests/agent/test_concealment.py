"""What somebody who counts can know of the next arm, with what the page shows and with more."""

from tools.correctness.concealment import WAYS, guessed


def test_the_page_leaves_few_arms_certain():
    known, blocks, shown = (guessed(12, 2, how, phases=60) for how in WAYS)
    assert known[0] > 0.05, "who knows how many come, knows the last"
    assert blocks[1] > known[1] + 0.02, "blocks of random size are easier to guess"
    assert shown[0] < known[0] / 2
