"""How well an observer who saw all earlier arms, and knows that the plan is equal, can guess a site's next arm.

`python -m tools.correctness concealment` prints the table of docs/appendix. The observer guesses the likeliest arm by
Bayes' rule, which is optimal without the site's key.
"""

from __future__ import annotations

from collections import defaultdict
from math import lgamma

import numpy as np
from tools.correctness.common import APPENDIX, SEED
from tools.pages import fill, table

from parley.agent import journal
from parley.agent.people import People, drawn_arm
from parley.site.pages import about

SIZES = tuple(range(2, 7))  # people per arm in a block of random size
PAGE = APPENDIX / "site.md"
SURE = 1 - 1e-12
Guess = tuple[float, float]  # shares of people whose arm is certain, and whose arm is guessed right


def shuffled(generator: np.random.Generator, each: int, arms: int) -> list[int]:
    """The arms of a random block in which each arm occurs `each` times."""
    order: list[int] = generator.permutation(np.repeat(np.arange(arms), each)).tolist()
    return order


def whole_phase(generator: np.random.Generator, each: int, arms: int, totals: list[int]) -> Guess:
    """Guesses if a phase is one block. The observer knows that each arm has one of the `totals`."""
    seen, certain, right = np.zeros(arms, dtype=int), 0, 0
    for place, arm in enumerate(shuffled(generator, each, arms)):
        possible = [total for total in totals if total >= seen.max() and total * arms > place]
        logs = [_log_orders(total - seen) - _log_orders(np.full(arms, total)) for total in possible]
        belief = np.exp(np.array(logs) - max(logs))
        shares = [(total - seen) / (total * arms - place) for total in possible]
        guess = belief / belief.sum() @ np.array(shares)
        certain, right = certain + (guess.max() > SURE), right + (guess.argmax() == arm)
        seen[arm] += 1
    return certain / (each * arms), right / (each * arms)


def random_blocks(generator: np.random.Generator, each: int, arms: int) -> Guess:
    """Guesses for blocks of random sizes, the last one cut to the plan. The observer knows the plan and the sizes."""
    order: list[int] = []
    while len(order) < each * arms:
        order += shuffled(generator, min(int(generator.choice(SIZES)), each - len(order) // arms), arms)
    belief = {((0,) * arms, each): 1.0}  # (left in the block by arm, left per arm after the block) -> probability
    certain, right = 0, 0
    for arm in order:
        begun: dict[tuple[tuple[int, ...], int], float] = defaultdict(float)
        for (block, after), chance in belief.items():
            for size in SIZES if not any(block) else (0,):
                inside = min(size, after)
                key = (block, after) if any(block) else ((inside,) * arms, after - inside)
                begun[key] += chance / (1 if any(block) else len(SIZES))
        guess = np.sum([chance * np.array(block) / sum(block) for (block, _), chance in begun.items()], axis=0)
        certain, right = certain + (guess.max() > SURE), right + (guess.argmax() == arm)
        moved: dict[tuple[tuple[int, ...], int], float] = defaultdict(float)
        for (block, after), chance in begun.items():
            if block[arm]:
                rest = tuple(count - (place == arm) for place, count in enumerate(block))
                moved[rest, after] += chance * block[arm] / sum(block)
        total = sum(moved.values())
        belief = {key: chance / total for key, chance in moved.items()}
    return certain / (each * arms), right / (each * arms)


def with_voids(generator: np.random.Generator, each: int, arms: int, share: float) -> Guess:
    """Guesses for one block at a real site, if the observer knows the plan and sees which assignments are voided.

    A share of assignments is voided, half of them at once and half when all slots are assigned.
    """
    people, key = People(), generator.bytes(32)
    names, plan = tuple(map(str, range(arms))), (each,) * arms
    people.take(journal.PhaseBegun(phase=1, plan="", arms=names, draws=plan))
    book, doubtful = people.phases[1], []
    certain, right = 0, 0
    while book.to_assign(replace_missing=False) or doubtful:
        if not book.to_assign(replace_missing=False):
            people.take(journal.Voided(participant=doubtful.pop(), reason="", who=""))
            continue
        chances = np.array(book.shares) / sum(book.shares)
        arm, odds = drawn_arm(key, 1, book.drawn, book.shares)
        certain, right = certain + (chances.max() > SURE), right + (chances.argmax() == arm)
        person = f"p-{book.drawn}"
        people.take(journal.Assigned(participant=person, phase=1, arm=arm, probability=str(odds)))
        if generator.random() < share:
            if generator.random() < 0.5:
                people.take(journal.Voided(participant=person, reason="", who=""))
            else:
                doubtful.append(person)
    return certain / book.drawn, right / book.drawn


def guessed_with_voids(each: int, arms: int, *, share: float, phases: int) -> Guess:
    """Mean guesses over phases in which a share of assignments is voided."""
    generator = np.random.default_rng([SEED, each, arms])
    found = np.mean([with_voids(generator, each, arms, share) for _ in range(phases)], axis=0)
    return float(found[0]), float(found[1])


def _log_orders(left: np.ndarray) -> float:
    return lgamma(left.sum() + 1) - sum(lgamma(count + 1) for count in left)


def guessed(each: int, arms: int, how: str, phases: int) -> Guess:
    """Mean guesses over phases."""
    generator = np.random.default_rng([SEED, each, arms])
    near = [total for total in range(1, 2 * each + 20) if about(total * arms) == about(each * arms)]
    work = {
        "whole phase, number known": lambda: whole_phase(generator, each, arms, [each]),
        "blocks of random size, number known": lambda: random_blocks(generator, each, arms),
        # All totals for which the page shows the same: the observer does not know which one applies.
        "whole phase, number to the nearest ten": lambda: whole_phase(
            generator, int(generator.choice(near)), arms, near
        ),
    }
    found = np.mean([work[how]() for _ in range(phases)], axis=0)
    return float(found[0]), float(found[1])


WAYS = (
    "whole phase, number known",
    "blocks of random size, number known",
    "whole phase, number to the nearest ten",
)
VOIDED = "whole phase, number known, 5 % voided"


def concealment(phases: int = 400) -> bool:
    """Print the table; returns whether the page reveals at most half as many arms as the exact number would.

    Voided assignments must not reveal more than that either.
    """
    lines, good = [], True
    for arms, each in ((2, 6), (2, 12), (2, 50), (3, 8), (3, 20)):
        found = [guessed(each, arms, how, phases) for how in WAYS]
        found.append(guessed_with_voids(each, arms, share=0.05, phases=phases))
        good &= found[2][0] <= found[0][0] / 2
        good &= found[3][0] <= found[0][0] + 0.01 and found[3][1] <= found[0][1] + 0.01
        cells = [f"{100 * certain:.1f} % / {100 * right:.0f} %" for certain, right in found]
        lines.append([f"{arms} x {each}", f"{100 / arms:.0f} %", *cells])
        print(" | ".join(lines[-1]), flush=True)
    shown = table(("arms x people of each", "chance", *WAYS, VOIDED), lines)
    fill(PAGE, "concealment", shown)
    return good
