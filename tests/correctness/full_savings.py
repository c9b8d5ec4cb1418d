"""Evidence racing against W-CPE at full size: 200 random instances, and the paper's."""

from __future__ import annotations

import numpy as np
from tests.correctness.common import DOCS, SEED, in_parallel, table
from tests.correctness.figures import MOST_ROUNDS, SETTINGS, paper_row, rounds_row
from tests.correctness.figures import SEED as PAPER_SEED
from tests.correctness.savings import DELTA, LEAST_GAP, PROMISED, TOPS, Case, geometric_mean, kept

INSTANCES, PAPER_REPLICATIONS = 200, 2000


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
    paper, as_promised = on_the_papers_instance(PAPER_REPLICATIONS)
    page = f"""# What evidence racing saves

## Random instances

`make savings` runs evidence racing and W-CPE on {INSTANCES} random instances and rewrites this page: 3 to 20 arms, 2 to
10 agents, random column-stochastic weights, means uniform in [0, 1], smallest gap at least {LEAST_GAP:g}, Gaussian
noise of scale 1, delta {DELTA:g}; {replications} replications of each policy on each instance, seed {SEED}. *Saving* is
W-CPE's mean samples over those of evidence racing. As promised: fewer samples on every instance, a geometric mean of
at least what was asked, median rounds no more than W-CPE's. This seed was not used to choose the defaults.

{table(columns, rows)}

{paper}"""
    (DOCS / "savings.md").write_text(page, encoding="utf-8")
    print(page)
    return as_promised and all(kept(found, top) for top in TOPS)


def on_the_papers_instance(replications: int) -> tuple[str, bool]:
    made = [paper_row(setting, replications) for setting in SETTINGS]
    columns = (
        "alpha", "delta", "noise", "samples", "±", "asked: at most", "rounds", "W-CPE", "PF-UCB-BAI", "lower bound",
        "wrong",
    )  # fmt: skip
    trade = [rounds_row(rounds, replications) for rounds in range(3, 9)]
    page = f"""## The paper's instance

6 arms, 3 agents, {replications:,} replications, seed {PAPER_SEED}; mean samples and their standard error, mean rounds
(at most {MOST_ROUNDS} asked), the mean samples of the paper's two policies, and what no policy can do without. For
alpha 0.4, 0.6 and 0.7 a tenth of W-CPE and a third of PF-UCB-BAI were asked.

{table(columns, [row for row, _ in made])}

As promised: {"yes" if all(good for _, good in made) else "NO"}.

## What the option `rounds` trades

The same instance, alpha 0.5.

{table(("rounds =", "samples, delta 0.1", "rounds", "samples, delta 1e-5", "rounds"), trade)}
"""
    return page, all(good for _, good in made)
