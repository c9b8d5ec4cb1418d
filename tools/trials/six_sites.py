"""Six sites, one of which closes in mid-study: how the study ends, depending on what the administrators decide.

`python -m tools.trials six-sites` simulates every decision many times, without a server, and rewrites its table in
docs/appendix/lost-sites.md.
"""

import numpy as np
from tests.protocol.test_lost_sites import SIX, Course
from tools.correctness.common import APPENDIX
from tools.pages import fill, table

from parley.protocol import Stage
from parley.text.status import overall
from parley.totals import Totals

LOST = "agent 6"
EVERYBODY = tuple(map(tuple, (np.full((6, 6), 0.5 / 6) + 0.5 * np.eye(6)).tolist()))
WEIGHTS = {"three of five weigh it": SIX, "all weigh it": EVERYBODY}
MEANS = ((0.6,) * 6, (0.2,) * 6, (0.0,) * 6)
WAYS = ("nobody is lost", "the question is kept", "kept, re-weighed once blocked", "re-weighed at once")


class Sites(Course):
    """Six sites that draw normal rewards."""

    def __init__(self, seed, **study):
        super().__init__(agents=6, means=MEANS, **study)
        self.generator = np.random.default_rng(seed)

    def drawn(self, counts, place):
        n, mean = np.array(counts), np.array(MEANS)[:, place]
        sums = n * mean + np.sqrt(n) * self.generator.standard_normal(len(n))
        return Totals(
            counts=n, sums=sums, squares=np.where(n > 0, sums**2 / np.maximum(n, 1) + np.maximum(n - 1, 0), 0)
        )


def play(way, seed=0, **study):
    """Run a study that loses its sixth site after the first phase; returns its samples, phases and ends."""
    course = Sites(seed, **study)
    course.phase()
    if way != WAYS[0] and course.trial.stage is Stage.RUNNING:
        course.freeze(LOST)
        if way == WAYS[3]:
            course.reweigh()
    course.to_the_end(most=60)
    if way == WAYS[2] and course.trial.stage is Stage.STALLED:
        course.certify()
        course.reweigh()
        course.to_the_end(most=60)
    return course


def told(course):
    """The samples, rounds and answers of a study, and how it ended."""
    ends, past = course.trial.ends, course.trial.past
    answers = sum(end.answered for end in ends.values())
    return sum(int(totals.counts.sum()) for totals in past), len(past), answers, str(overall(ends.values()))


def rows(replications):
    for policy in ("evidence", "wcpe"):
        for name, weights in WEIGHTS.items():
            for way in WAYS:
                found = [told(play(way, seed, policy=policy, weights=weights)) for seed in range(replications)]
                samples, rounds, answers, _ = (np.array(part) for part in zip(*found, strict=True))
                ends, counts = np.unique([end for *_, end in found], return_counts=True)
                how = ", ".join(f"{end} {n}" for end, n in zip(ends, counts, strict=True))
                yield [policy, name, way, f"{samples.mean():,.0f}", f"{samples.max():,}", f"{rounds.mean():.1f}",
                       f"{answers.mean():.2f} of 6", how]  # fmt: skip


def page(replications=20):
    head = ["policy", "weights", "what is done", "samples, mean", "most", "rounds", "answers", "ends"]
    made = table(head, rows(replications))
    print(made)
    fill(APPENDIX / "lost-sites.md", "six", made)
