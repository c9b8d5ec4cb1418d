"""Evidence racing against W-CPE at full size: 200 random instances, and the paper's."""

from __future__ import annotations

import numpy as np
from tools.correctness.common import APPENDIX, in_parallel
from tools.correctness.figures import MOST_ROUNDS, SETTINGS, paper_row, rounds_row
from tools.correctness.figures import SEED as PAPER_SEED
from tools.correctness.savings import DELTA, LEAST_GAP, POPULATION, PROMISED, TOPS, Case, geometric_mean, kept
from tools.pages import table, write

INSTANCES, PAPER_REPLICATIONS, SEED = 200, 2000, 20261115
POPULATIONS, LEAST_CUT = 60, 0.25  # instances with population weights, and the least saving required on them


def savings(replications: int, workers: int) -> bool:
    cases = [Case(number=number, seed=SEED, replications=replications) for number in range(INSTANCES)]
    found = [saving for _, saving in in_parallel(Case.run, cases, workers)]
    rows = []
    for top in TOPS:
        some = [saving for saving in found if saving.top == top]
        factors = [saving.factor for saving in some]
        rounds, wcpe_rounds, wrong, wcpe_wrong = (
            [getattr(saving, name) for saving in some]
            for name in ("rounds", "wcpe_rounds", "mistaken", "wcpe_mistaken")
        )
        means = (f"{geometric_mean(some):.1f}", f"{PROMISED[top]:g}", f"{min(factors):.1f}", f"{max(factors):.1f}")
        middles = (f"{np.median(rounds):.2f}", f"{np.median(wcpe_rounds):.2f}", f"{max(rounds):.1f}")
        rates = (f"{np.mean(wrong):.4f}", f"{np.mean(wcpe_wrong):.4f}")
        rows.append((f"{top}", f"{len(some)}", *means, *middles, *rates, "yes" if kept(found, top) else "NO"))
    columns = (
        "N", "instances", "saving, geometric mean", "asked", "least", "most", "rounds, median", "W-CPE's",
        "most rounds", "wrong", "W-CPE's", "as promised",
    )  # fmt: skip
    shared, cut = with_population_weights(replications, workers)
    paper, as_promised = on_the_papers_instance(PAPER_REPLICATIONS)
    page = f"""# What evidence racing saves

## Random instances

`make savings` runs evidence racing and W-CPE on {INSTANCES} random instances and rewrites this page: 3 to 20 arms, 2 to
10 agents, random column-stochastic weights, means uniform in [0, 1], smallest gap at least {LEAST_GAP:g}, Gaussian
noise of scale 1, delta {DELTA:g}; {replications} replications of each policy on each instance, seed {SEED}. *Saving* is
W-CPE's mean samples divided by those of evidence racing. *As promised* means: fewer samples on every instance, a
geometric mean of at least the target (*asked*), and median rounds no more than W-CPE's. This seed was not used before.

{table(columns, rows)}

{shared}
{paper}"""
    write(APPENDIX / "savings.md", page)
    print(page)
    return cut and as_promised and all(kept(found, top) for top in TOPS)


def with_population_weights(replications: int, workers: int) -> tuple[str, bool]:
    """The saving of ten agents that all ask the same question, because only one question is paid for."""
    cases = [Case(number=n, seed=SEED, replications=replications, population=True) for n in range(POPULATIONS)]
    found = [saving for _, saving in in_parallel(Case.run, cases, workers)]
    rows = []
    for top in TOPS:
        some = [saving for saving in found if saving.top == top]
        lefts, wrong = [saving.left for saving in some], np.mean([saving.mistaken for saving in some])
        mean = (f"{geometric_mean(some, 'left'):.3f}", f"{min(lefts):.3f}", f"{max(lefts):.3f}")
        rest = (f"{geometric_mean(some):.1f}", f"{np.median([saving.rounds for saving in some]):.2f}", f"{wrong:.4f}")
        rows.append((f"{top}", f"{len(some)}", *mean, *rest))
    columns = ("N", "instances", "of ten questions", "least", "most", "saving over W-CPE", "rounds, median", "wrong")
    good = all(geometric_mean([one for one in found if one.top == top], "left") <= 1 - LEAST_CUT for top in TOPS)
    page = f"""## Population weights

The same kind of instances, {POPULATIONS} of them, with {POPULATION} agents that all ask about the whole population:
they pay for one question. *Of ten questions* is the ratio of the samples to those of the same study with weights that
differ in the ninth decimal place, so that every agent pays for its own question; geometric mean, least and most.
The target is at least {100 * LEAST_CUT:.0f} % fewer. Reached: {"yes" if good else "NO"}.

{table(columns, rows)}
"""
    return page, good


def on_the_papers_instance(replications: int) -> tuple[str, bool]:
    made = [paper_row(setting, replications) for setting in SETTINGS]
    columns = (
        "alpha", "delta", "noise", "samples", "±", "asked: at most", "rounds", "W-CPE", "PF-UCB-BAI", "lower bound",
        "wrong",
    )  # fmt: skip
    short = [f"alpha {row[0]}, delta {row[1]}, {row[2]}" for row, good in made if not good]
    trade = [rounds_row(rounds, replications) for rounds in range(3, 9)]
    page = f"""## The paper's instance

6 arms, 3 agents, {replications:,} replications, seed {PAPER_SEED}; mean samples and their standard error, mean rounds
(target: at most {MOST_ROUNDS}), the mean samples of the paper's two policies, and the lower bound for every policy. For
alpha 0.4, 0.6 and 0.7 the target is a tenth of W-CPE and a third of PF-UCB-BAI.

{table(columns, [row for row, _ in made])}

As promised: {"all" if not short else "all but " + "; ".join(short)}.

## Samples and rounds by the option `rounds`

The same instance, alpha 0.5.

{table(("rounds =", "samples, delta 0.1", "rounds", "samples, delta 1e-5", "rounds"), trade)}
"""
    return page, not short
