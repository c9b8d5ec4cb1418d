"""Makes examples/visits.csv: three markets tried three checkouts on visitors of whom last month's spending is known.

Spending is skewed, and one visitor in five buys nothing. The shorter checkout earns most in France and Belgium, the one
with a video in Switzerland. Run `python examples/visits.py` to write the table again.
"""

import csv
from pathlib import Path

import numpy as np

MARKETS = {"France": 1.0, "Belgium": 0.9, "Switzerland": 1.4}
EFFECTS = {"current": (0.0, 0.0, 0.0), "short": (8.0, 7.0, 2.0), "video": (2.0, 1.0, 16.0)}
ROWS = 300  # of every checkout in every market


def rows() -> list[tuple[str, str, str, str]]:
    generator, made = np.random.default_rng(7), []
    for place, (market, level) in enumerate(MARKETS.items()):
        for variant, effects in EFFECTS.items():
            before = generator.lognormal(3.1, 0.6, ROWS) * level
            bought = generator.random(ROWS) < 0.8
            spent = bought * (before * generator.lognormal(0.0, 0.25, ROWS) + effects[place] / 0.8)
            made += [(market, variant, f"{x:.2f}", f"{y:.2f}") for x, y in zip(before, spent, strict=True)]
    return [made[place] for place in generator.permutation(len(made))]


if __name__ == "__main__":
    with Path(__file__).with_name("visits.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("market", "variant", "spent_before", "spent"))
        writer.writerows(rows())
