"""Balance and concealment in the strata of a site, measured on journals as `parley site` writes them.

`python -m tools.correctness strata` prints the table of docs/strata.md. Two strata are filled in a random order, phase
by phase, each with an equal plan for two arms. Observers have seen all earlier arms and guess the next one; they differ
in what else they know.
"""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
from tools.correctness.common import DOCS, SEED
from tools.pages import fill, table

from parley.agent.journal import RulesSeen
from parley.agent.site import Site
from parley.agent.strata import Strata

PAGE = DOCS / "strata.md"
ARMS, NAMES, EACH = ("A", "B"), ("old", "young"), 12
LISTS = {"kits numbered at random": True, "kits numbered arm by arm": False}


def filled(phases: int, *, shuffled: bool, seed: int = SEED) -> tuple[list[tuple[int, int, str, int]], int]:
    """All people in order, as (phase, stratum, kit, arm); and the largest deviation of a full block from its plan."""
    generator = np.random.default_rng(seed)
    people: list[tuple[int, int, str, int]] = []
    count, worst = 2 * EACH * len(NAMES) * phases, 0
    numbers = generator.permutation(count) if shuffled else np.arange(count)
    kits = "kit,arm\n" + "".join(f"K{number:06},{ARMS[2 * n // count]}\n" for n, number in enumerate(numbers))
    with tempfile.TemporaryDirectory(prefix="parley-strata-") as folder:
        rules = {"place": "Leeds", "kits": True, "arms": ARMS, "flexible": True}
        made = Strata(
            Site(folder, study="s", agent=name, key=generator.bytes(32), rules=RulesSeen(**rules, stratum=name))
            for name in NAMES
        )
        made.list_kits(kits.encode(), "kits")
        for phase in range(1, phases + 1):
            for site in made.sites:
                site.begin(phase=phase, plan=f"{phase:064}", arms=ARMS, draws=(EACH, EACH))
            for stratum in generator.permutation(np.repeat([0, 1], 2 * EACH)).tolist():
                given = made.assign(f"p-{len(people)}", NAMES[stratum])
                person = made.sites[stratum].people[given.participant]
                assert person.arm is not None
                people.append((phase, stratum, given.kit, person.arm))
            for site in made.sites:
                worst = max(worst, *(abs(n - EACH) for n in site.people.phases[phase].assigned))
        made.close()
    return people, worst


def guesses(people: list[tuple[int, int, str, int]]) -> dict[str, float]:
    """The share of arms that each observer guesses right; without information, it guesses the first arm."""
    right: Counter[str] = Counter()
    own: Counter[tuple[int, int, int]] = Counter()
    site: Counter[tuple[int, int]] = Counter()
    seen: dict[int, int] = {}
    for phase, stratum, kit, arm in people:
        number = int(kit[1:])
        nearest = seen[min(seen, key=lambda one: abs(one - number))] if seen else 0
        told = {
            "the arms of the own stratum": int(own[phase, stratum, 0] > own[phase, stratum, 1]),
            "the arms of all strata, together": int(site[phase, 0] > site[phase, 1]),
            "the number of the kit, and the arms of all before it": nearest,
        }
        right.update(name for name, guess in told.items() if guess == arm)
        own[phase, stratum, arm] += 1
        site[phase, arm] += 1
        seen[number] = arm
    return {name: right[name] / len(people) for name in right}


def strata(phases: int = 60) -> bool:
    """Print the table; returns whether every block matches its plan and random kit numbers reveal nothing."""
    found = {name: filled(phases, shuffled=shuffled) for name, shuffled in LISTS.items()}
    shares = {name: guesses(people) for name, (people, _) in found.items()}
    lines = [
        [what, *(f"{100 * shares[name][what]:.0f} %" for name in LISTS)] for what in shares["kits numbered at random"]
    ]
    lines.append(["largest distance of a full block from its plan", *(str(worst) for _, worst in found.values())])
    shown = table(("who knows", *LISTS), lines)
    print(shown)
    fill(PAGE, "strata", shown)
    told = shares["kits numbered at random"]["the number of the kit, and the arms of all before it"]
    return not any(worst for _, worst in found.values()) and abs(told - 0.5) < 4 * 0.5 / np.sqrt(2880)
