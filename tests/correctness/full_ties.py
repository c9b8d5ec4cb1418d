"""Every near-tie at full size: results are kept cell by cell as they come, so that a long run can be taken up again."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from functools import partial

from tests.correctness.common import DOCS, SEED, in_parallel, table
from tests.correctness.near_ties import CAP, GAP, Cell, allowance, every_cell

RESULTS, PAGE = DOCS / "delta-correctness.json", DOCS / "delta-correctness.md"
COLUMNS = (
    "noise", "K", "M", "N", "weights", "delta", "replications", "error rate", "over delta", "±", "rounds", "ended",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of one cell."""

    replications: int
    error_rate: float
    rounds: float
    finished: float

    def kept(self, cell: Cell) -> bool:
        """Not above delta but for chance; and sharp where only one bet can go wrong."""
        sharp = cell.noise == "gaussian" and cell.arms == 2 and cell.agents == 1
        safe = self.error_rate <= allowance(cell.delta, self.replications)
        return safe and not (sharp and self.error_rate < cell.delta / 2)

    def row(self, cell: Cell) -> list[str]:
        rate, delta = self.error_rate, cell.delta
        error = math.sqrt(max(rate, 1 / self.replications) * (1 - rate) / self.replications)
        row = [cell.noise, f"{cell.arms}", f"{cell.agents}", f"{cell.top}", "mix" if cell.mixed else "identity"]
        row += [f"{delta:g}", f"{self.replications:,}", f"{rate:.5f}", f"{rate / delta:.2f}", f"{error / delta:.2f}"]
        return [*row, f"{self.rounds:.1f}", f"{100 * self.finished:.1f} %"]


def run_cell(cell: Cell, replications: int) -> Result:
    outcome = cell.run(replications, seed=SEED)
    return Result(
        replications=replications,
        error_rate=outcome.error_rate,
        rounds=float(outcome.rounds.mean()),
        finished=float(outcome.finished.mean()),
    )


def read() -> dict[Cell, Result]:
    if not RESULTS.exists():
        return {}
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {Cell(**entry["cell"]): Result(**entry["result"]) for entry in document}


def write(results: dict[Cell, Result]) -> None:
    document = [{"cell": asdict(cell), "result": asdict(results[cell])} for cell in every_cell() if cell in results]
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


def page(results: dict[Cell, Result]) -> str:
    cells = [cell for cell in every_cell() if cell in results]
    broken = [str(cell) for cell in cells if not results[cell].kept(cell)]
    missing = len(every_cell()) - len(cells)
    return f"""# Delta-correctness, tried hard

`make correctness` runs evidence racing where errors are likeliest and rewrites this page. In every cell the top N arms
are better than the others by {GAP:g}, for every agent, so that nearly nothing can be told apart; a run stops before the
phase that would exceed {CAP} times its first phase. *Error rate* is the share of the replications (seed {SEED}) in
which some agent lost one of its true top arms, whether or not the run ended; ± is its standard error, over delta.
*Ended* is the share of runs that found every answer within the cap. Bounded rewards are 0 or 1.

{table(COLUMNS, [results[cell].row(cell) for cell in cells])}

Cells not run: {missing or "none"}. Error rates above delta plus three standard errors, or below half of delta for
boosted Gaussian evidence with two arms and one agent (the test is sharp, not just safe): {", ".join(broken) or "none"}.

A test of the test: `tests/correctness/test_near_ties.py` breaks the policy and the reward models in eight
ways, each of which must push an error rate above delta. [Evidence racing](evidence-racing.md) has the proof.
"""


def ties(replications: int, workers: int, *, resume: bool, noises: list[str]) -> bool:
    """Run the cells (with `resume` only those not yet run at this size) and write every result at once."""
    results = read()
    wanted = [cell for cell in every_cell() if cell.noise in noises]
    if resume:
        wanted = [cell for cell in wanted if cell not in results or results[cell].replications < replications]
    for cell, result in in_parallel(partial(run_cell, replications=replications), wanted, workers):
        results[cell] = result
        write(results)
    print(page(results))
    return len(results) == len(every_cell()) and all(result.kept(cell) for cell, result in results.items())
