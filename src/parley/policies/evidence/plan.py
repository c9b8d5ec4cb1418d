"""How evidence racing plans a phase: with the cheapest draws that should rule out every losing arm.

The guarantee does not depend on plans: its proof holds for all counts that depend only on the past.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from parley.costs import CostModel, days_needed, round_overhead, stated_rates
from parley.errors import InvalidInput
from parley.harmonic import ArmPrograms, ContrastPrograms, Solution, solve
from parley.policies.evidence.closing import FEW_ARMS, MOST_CONTENDERS, Closing, manner, quantiles
from parley.policies.evidence.wealth import Contrasts, both
from parley.policies.guardrails import guardrails
from parley.problem import BoolArray, FloatArray, IntArray, Problem
from parley.totals import Totals

ACCURACIES = (0.02, 0.01, 0.01)  # relative gaps of the solves, each of which starts from the previous solution
FEWEST_STEPS, MOST_STEPS, WORK = 60, 500, 1e9  # bounds on a solve's steps, which take about WORK multiplications
FIRST_MARGIN, LEAST_MARGIN, MOST_MARGIN = 0.5, 0.25, 2.0  # safety margins of a contrast, in standard deviations
LEAST_STAKE = 0.1  # smallest stake to plan for, so that target variances stay bounded
SMALLEST = 0.03  # a phase costs at least this share of what was spent before; the share is smaller in long studies
MOST_FASTER = 1.1  # largest factor on growth, in long studies
LEAST_CELL = 0.05  # smallest cell relative to the phase's mean cell, so that every estimate keeps improving
# Largest first phase, relative to the cost of a tie (with a tolerance) and to a stated budget; the last is for first
# phases that are evidence.
OF_A_TIE, OF_THE_BUDGET, OF_ITS_BUDGET = 0.025, 0.1, 0.2
SMALL_GAPS = 10.0  # the gap that sizes the first phase is at most this many times `largest_gap`
# First phase of a closed study relative to its closing size; with more than four arms smaller, by the square of their
# number: closing costs more with every arm, but finding a clear leader does not.
FIRST_LOOK = 0.135
SHARPER = 0.73  # factor on the standard errors after that phase, which is evidence already
SLOWER, SLOWEST = 0.4, 1.55  # power of the growth of phases in closed studies, and their least growth
ALIKE_POWER = 1.5  # phases grow with this power of the chance that the arms are alike, up to `Manner.swift`
TIGHT = 0.75  # a budget is tight from this share of the closing size up to all of it
# After a look that is followed by n more, the total spent is at most `Manner.steps`^-n of the closing size, 1.15^-n in
# a tight budget, and at least 6^-n of it; at least 2^-n if rounds are stated.
FEW_IN_BUDGET, MANY_LOOKS, STATED_LOOKS = 1.15, 6.0, 2.0
# For a study with a tolerance whose last round is stated: its caution, the smallest gap to plan for (in tolerances,
# after the tolerance is added), and what replaces `Manner.steps`.
FIRM_CAUTION, LEAST_GAP, FIRM_LOOKS = 4.0, 0.7, 1.8
# If rounds are stated: how much smaller than estimated a gap may be, and the smallest gap to plan for, both in standard
# errors; then the largest factor by which a phase may multiply what was spent.
SMALLER, LEAST_SIGNAL, FASTEST = 0.5, 0.15, 6.0
# Roughly the number of reports of one cell in a study. Every private report adds noise, so the first phase should be
# large enough to outweigh the noise of that many reports (docs/privacy.md).
REPORTS = 8.0
# Joint answers of M agents multiply the variances after the first phase by sqrt(4/3 / M), but by no less than 0.35.
MANY, LEAST_SMALLER = 4 / 3, 0.35
WORTH_A_ROUND = 0.25  # least drawing time of a later phase, relative to the fixed days of a round
# Largest size of a study with a tolerance, relative to the single phase that should end a tie: if N = 1, and if N >= 2,
# where no end is certain.
LARGEST, LARGEST_OF_SEVERAL = 3.0, 5.0
RESERVE = 0.01  # share of an agent's error probability that its pairs stake in no look but their last
SURE_OF_END = 1.1  # factor on a look that is sure to end the study: with normal inference, variances are estimates
ROOM = 1.5  # least largest size, relative to a look that is sure to end the study
LARGEST_STUDY = 2.0**62  # samples in all: counts are 64-bit integers


# Option `rounds` -> precision, growth, optimism, caution. Found by measurement, see docs/evidence-racing.md.
TEMPERS = {
    3: (0.065, 30.0, 0.7, 4.0),
    4: (0.085, 6.0, 1.4, 1.2),
    5: (0.11, 3.0, 2.25, 0.5),
    6: (0.12, 2.5, 2.6, 0.4),
    7: (0.13, 2.2, 2.8, 0.35),
    8: (0.14, 2.0, 3.0, 0.3),
}


@dataclass(frozen=True, kw_only=True)
class Temper:
    """The parameters of plans; `EvidenceRacing` documents those that are options."""

    precision: float
    growth: float
    smallest_growth: float
    optimism: float
    caution: float
    longer: float = 1.0  # factor below 1 for long studies, so that their cost is close to the lower bound


def require_possible(samples: float) -> None:
    """Raise `InvalidInput` if a study needs more samples than can be counted."""
    if not samples <= LARGEST_STUDY:
        raise InvalidInput(
            "planned draws",
            found=f"{samples:.3g} in all",
            allowed="at most 2^62",
            hint="No study can distinguish arms whose gaps are so small against this noise; set a sample cap",
        )


def cheapest_means(problem: Problem, rows: FloatArray, variances: FloatArray | None = None) -> FloatArray:
    """The cheapest draws that give mixed means the variances `rows (1, agent)`.

    Returns `(arm, agent)`, or a single row that serves every arm. `rows` are relative to the variance of a reward,
    unless cells have their own `variances (arm, agent)`. Arms are planned together if they differ in price, or if time
    couples them.
    """
    cost_model = CostModel.of(problem)
    if cost_model.prices is None:
        each = rows if variances is None else np.broadcast_to(rows, problem.shape)
        return solve(ArmPrograms.of(problem.squared_weights, each, variances=variances), accuracy=1e-6).allocation
    every = np.broadcast_to(rows, (1, *problem.shape))
    programs = ContrastPrograms.alone(problem.squared_weights, every, cost_model.prices, variances)
    return np.asarray(solve(programs, accuracy=1e-6, pace=cost_model.pace).allocation[0])


def first_draws(problem: Problem, precision: float, line: float, *, together: bool = False) -> FloatArray:
    """The cheapest draws of the first phase: `(arm, agent)`, or a single row that serves every arm.

    The first phase informs the plan and is usually not evidence. It gives mixed means a standard error of about
    `precision` gaps, or less in longer studies or if agents answer `together`. It stays small compared with the study:
    at most about a fortieth of what a tie takes if there is a tolerance (a seventh of the closing look if the study is
    closed), at most a tenth of a stated budget (a fifth if closed), and smaller if rewards vary by more than
    `largest_gap`.
    """
    variance, gap = problem.noise.first_sizes(problem.largest_gap, _first_gap(problem))
    common, own = (variance, None) if isinstance(variance, float) else (1.0, variance)
    error = precision * gap
    # Studies with a higher line are longer and can afford a more precise first phase.
    smaller = math.sqrt(math.log(30) / line)
    if together:
        smaller = min(smaller, max(math.sqrt(MANY / problem.question_count), LEAST_SMALLER))
    least = error**2 * smaller
    if problem.tolerance:
        stake = problem.noise.stake(np.array([line]), np.array([FIRST_MARGIN]))[0]
        share = OF_A_TIE * (TEMPERS[USUAL][0] / precision) ** 2  # fewer rounds need a larger first phase
        least = max(least, (problem.tolerance / stake) ** 2 / (2 * share))
        if is_closed(problem):
            quantile = closing_size(problem, line)[1]
            # A tolerance far below all plausible gaps must not make the phase larger.
            error = SHARPER * precision * min(gap, math.sqrt(np.max(variance)))
            share = FIRST_LOOK * min(1.0, FEW_ARMS / problem.arm_count) ** 2
            least = max(error**2 * smaller, (problem.tolerance / quantile) ** 2 / (2 * share))
    draws = cheapest_means(problem, np.full((1, problem.agent_count), least / common), own)
    if problem.rho is not None:
        draws = enlarged(draws, variance, REPORTS * problem.noise_variance)
    if problem.max_samples is None:
        return draws
    total = float(np.broadcast_to(draws, problem.shape).sum())
    share = OF_ITS_BUDGET if is_closed(problem) else OF_THE_BUDGET
    return draws * min(share * problem.max_samples / total, 1.0)


def guarded_draws(problem: Problem, draws: FloatArray, largest_size: int) -> FloatArray:
    """Enlarge the first draws so that guardrails find a large harm at once, up to a small share of the largest size.

    Evidence of harm grows only when a phase is reported. Many small phases would find the harm later, with weaker bets.
    """
    guards = guardrails(problem)
    if not guards:
        return draws
    whole = np.ceil(np.broadcast_to(draws, problem.shape)).astype(np.int64)
    wanted = max(guard.first_look(whole) for guard in guards)
    most = OF_A_TIE * largest_size if problem.max_samples is None else OF_THE_BUDGET * problem.max_samples
    return np.asarray(whole * max(1.0, min(wanted, most / int(whole.sum()))))


def size_of_ties(problem: Problem, line: float) -> int | None:
    """The largest size of a study with a tolerance, in samples; None if it is unknown or too large to count.

    Without a tolerance or a known scale of rewards the size is unknown. Otherwise it is three times the size of a
    single phase that can tell a tie of all arms from a gap as large as the tolerance (five times with N >= 2), plus
    room for small cells, or what an end for certain needs. If all arms tie, fewer than one study in a hundred gets that
    large (docs/tolerance.md).
    """
    if not problem.tolerance or not problem.noise.knows_scale:
        return None
    share = (problem.arm_count - 1) * problem.top
    stake = problem.noise.stake(np.array([line + math.log(share)]), np.zeros(1))[0]
    size = (LARGEST if problem.top == 1 else LARGEST_OF_SEVERAL) * _samples(problem, stake)
    if ends_surely(problem):
        size = max(size, ROOM * size_of_end(problem, line))
    return math.ceil(size) if size <= LARGEST_STUDY else None


def ends_surely(problem: Problem) -> bool:
    """Whether a last look can give every agent an answer whatever its rewards are: the reserve pays for it."""
    return is_closed(problem) and problem.noise.knows_scale


def size_of_end(problem: Problem, line: float) -> float:
    """The samples of a look that is sure to end the study even if all pairs have only their reserve; `ends_surely`."""
    return SURE_OF_END * _samples(problem, _quantile(problem, line - math.log(RESERVE / (problem.arm_count - 1))))


def _quantile(problem: Problem, line: float) -> float:
    """The normal quantile of a level of exp(-line) in a last look."""
    return float(quantiles(problem, np.array(-line)))


def _samples(problem: Problem, quantile: float) -> float:
    """The samples of a look that tells ties from a gap as large as the tolerance, with room for small cells."""
    cells = problem.cell_count * max(problem.minimum_cell, problem.noise.least_draws)
    return float(_look(problem, quantile, problem.noise.variance).sum()) + cells


def _look(problem: Problem, quantile: float, variance: FloatArray | float) -> FloatArray:
    """`(arm, agent)`: the cheapest draws that give every mixed mean half the variance (tolerance / quantile)^2."""
    common, own = (variance, None) if isinstance(variance, float) else (1.0, np.broadcast_to(variance, problem.shape))
    rows = np.full((1, problem.agent_count), (problem.tolerance / quantile) ** 2 / (2 * common))
    draws = cheapest_means(problem, rows, own)
    if problem.rho is not None:
        draws = enlarged(draws, variance, REPORTS * problem.noise_variance)
    return np.broadcast_to(draws, problem.shape)


def ending_draws(problem: Problem, contrasts: Contrasts, past: Totals, temper: Temper, closing: Closing) -> IntArray:
    """`(batch, arm, agent)`: the draws of a look that closes all questions, whatever its rewards are."""
    solution, touched, _ = cheapest(problem, contrasts, past, temper, CostModel.of(problem), closing=closing)
    enough = np.where(touched, SURE_OF_END * solution.allocation, 0.0)
    require_possible(past.counts.sum() + enough.sum())
    return np.where(touched, np.maximum(whole_cells(problem, contrasts, enough), problem.noise.bet_draws), 0)


def is_closed(problem: Problem) -> bool:
    """Whether the study is *closed*: planned for its closing look from the start, with a first phase that is evidence.

    In a closed study all pairs start with equal shares, which move later.
    """
    few = problem.top == 1 and 1 < problem.arm_count <= MOST_CONTENDERS
    return few and problem.tolerance > 0 and problem.noise.boosted


def closing_size(problem: Problem, line: float) -> tuple[float, float]:
    """Find the size of one look that closes the study if every pair has an equal share of the error probability.

    Returns the cost of the look and the normal quantile of such a share.
    """
    draws, quantile = _closing_look(problem, line)
    return float(CostModel.of(problem).spent(draws)), quantile


def closing_quantile(problem: Problem, line: float) -> float:
    """The normal quantile of an equal share of an agent's error probability in a last look."""
    return _quantile(problem, line + math.log((problem.arm_count - problem.top) * problem.top))


def _closing_look(problem: Problem, line: float) -> tuple[FloatArray, float]:
    """The draws `(arm, agent)` of the look that `closing_size` is about, and the quantile."""
    quantile = closing_quantile(problem, line)
    return _look(problem, quantile, problem.noise.first_variance), quantile


def is_tight(problem: Problem, line: float) -> bool:
    """Whether the budget of a closed study may be a little too small for one look that closes it.

    Such a study spends its error probability late, so that it nearly always has an answer even if arms tie. A smaller
    budget suffices for gaps only.
    """
    if not is_closed(problem) or problem.max_samples is None:
        return False
    size = float(_closing_look(problem, line)[0].sum())
    return TIGHT * size <= problem.max_samples < size


def _first_gap(problem: Problem) -> float:
    """The gap that sizes the first phase: `largest_gap`, or up to ten times as much if rewards vary by more."""
    noise = problem.noise
    width = math.sqrt(np.max(noise.first_variance)) if not noise.in_range else noise.usual_gap
    return max(problem.largest_gap, min(width, SMALL_GAPS * problem.largest_gap))


def further_draws(
    problem: Problem,
    contrasts: Contrasts,
    past: Totals,
    temper: Temper,
    looks: IntArray,
    closing: Closing | None = None,
    *,
    stated: bool = False,
    tight: bool = False,
) -> IntArray:
    """`(batch, arm, agent)`: the draws to plan for the next phase. All arrays have a single batch axis.

    Plans assume gaps of sqrt(estimate^2 + (optimism * error)^2), so a near-tie by chance needs only a moderate phase.
    Each contrast has a safety margin of sqrt(2 log(caution / q)) standard deviations, where q is its share of the cost:
    cheap contrasts are almost sure to end, and only expensive contrasts take a risk. Shares and margins depend on each
    other, so there are three solves, each starting from the multipliers of the previous solve.

    If rounds are `stated`, a phase may grow faster than the options allow, so that the remaining `looks (batch,)`
    suffice. If a round takes days of its own, a phase is large enough to be worth a round. If reports are private, a
    phase is large enough to outweigh their noise. paper/cost-theorem.md relies on the least cell and the accuracy of
    the last solve; docs/evidence-racing.md explains the plan.
    """
    cost_model = CostModel.of(problem)
    counts = past.counts
    accuracies = (*ACCURACIES[:-1], ACCURACIES[-1] * temper.longer**2)
    # The last round is stated, so no later phase can repair an optimistic plan: it assumes smaller gaps instead.
    if problem.tolerance and problem.max_rounds is not None and closing is None:
        temper = replace(temper, optimism=0.0, caution=FIRM_CAUTION)
        sure = np.maximum(contrasts.gap - contrasts.error, LEAST_GAP * problem.tolerance)
        contrasts = replace(contrasts, gap=np.minimum(contrasts.gap, sure))
    solution, touched, shares = cheapest(problem, contrasts, past, temper, cost_model, accuracies, closing)
    spent, wanted = cost_model.spent(counts), cost_model.spent(solution.allocation)
    draws, closes = solution.allocation, None if closing is None else closing.cost
    if (
        closes is not None
        and problem.max_rounds is None
        and (early := np.flatnonzero(closes > manner(problem).early * spent)).size
    ):
        # What looks like a tie may still be a clear gap, which needs fewer draws of the arms that do not lead.
        some = contrasts.take(early)
        alone = cheapest(problem, some, past[early], temper, cost_model, accuracies)[0].allocation
        share = wanted[early] / cost_model.spent(alone)
        draws = draws.copy()
        draws[early] = (draws[early] + alone * share[:, None, None]) / 2
    firm = problem.max_rounds is not None
    if closing is not None and closes is not None:
        steps = FIRM_LOOKS if firm else FEW_IN_BUDGET if tight else manner(problem).steps
        growth = growth_to_close(problem, temper, closing)
        total = size_of_look(spent, wanted, looks, temper, closes, growth, steps, firm=firm, stated=stated)
    else:
        fastest = np.maximum(temper.growth, (1 + wanted / spent) ** (1 / np.maximum(looks, 1)) if firm else 0.0)
        total = np.clip(wanted, (temper.smallest_growth - 1) * spent, (fastest - 1) * spent)
    if stated and closes is None:
        enough = on_the_way(spent, wanted, looks, contrasts, shares, temper)
        # A stated last round does not draw more than the plan wants: the study may end undecided.
        total = np.where((looks <= 1) & (problem.max_rounds is not None), total, np.maximum(total, enough))
    factor = total / wanted
    if problem.rate is not None and (overhead := round_overhead(problem)) > 0:
        factor = np.maximum(factor, WORTH_A_ROUND * overhead / days_needed(draws, problem.rate))
    if problem.rho is not None:
        factor = np.maximum(factor, worth_the_noise(problem, draws, past))
    planned = draws * factor[:, None, None]
    # Arms that are no agent's contenders should lose at once, unless that takes more than the largest planned cell.
    if closing is not None:
        most = planned.max(axis=-2, keepdims=True)
        clear = ~closing.contenders.any(axis=-1, keepdims=True)
        planned = np.where(clear, np.maximum(planned, np.minimum(draws, most)), planned)
    cells = np.maximum(touched.sum(axis=(-2, -1), keepdims=True), 1)
    planned = np.maximum(planned, LEAST_CELL * temper.longer * planned.sum(axis=(-2, -1), keepdims=True) / cells)
    require_possible((counts.sum(axis=(-2, -1)) + planned.sum(axis=(-2, -1))).max() + counts[0].size)
    quotas = whole_cells(problem, contrasts, np.where(touched, planned, 0.0))
    return np.where(touched, np.maximum(quotas, problem.noise.bet_draws), 0)


def whole_cells(problem: Problem, contrasts: Contrasts, draws: FloatArray) -> IntArray:
    """`(batch, arm, agent)`: integer draws with which bets win as much as planned for real-valued `draws`."""
    hardest = np.where(contrasts.losing, contrasts.missing, 0.0).max(axis=(-3, -2, -1))
    stake = np.maximum(problem.noise.stake(hardest, np.full(hardest.shape, FIRST_MARGIN)), LEAST_STAKE)
    return problem.noise.enough_draws(draws, stake).astype(np.int64)


def cheapest(
    problem: Problem,
    contrasts: Contrasts,
    past: Totals,
    temper: Temper,
    cost_model: CostModel,
    accuracies: tuple[float, ...] = ACCURACIES,
    closing: Closing | None = None,
) -> tuple[Solution, BoolArray, FloatArray]:
    """The cheapest real-valued draws expected to win the missing wealth of every losing contrast.

    Returns the solution, the cells that it draws, and each contrast's share of the cost: its multiplier times the right
    side of its constraint. At the optimum a contrast, or a group of contrasts, accounts for no more of the cost than a
    plan for it alone would cost (docs/regret.md).
    """
    variances = problem.noise.cell_variances(past)
    if isinstance(variances, float) and problem.rho is None:
        common, own = variances, None
    else:
        common, own = 1.0, np.broadcast_to(variances, past.counts.shape)
    margin = np.full(contrasts.gap.shape, FIRST_MARGIN)
    solution: Solution | None = None
    near: FloatArray | None = None  # draws that allow for the noise of private reports
    steps = int(np.clip(WORK / (problem.arm_count * problem.agent_count**2), FEWEST_STEPS, MOST_STEPS))
    for accuracy in accuracies:
        rows, each = _rows(problem, contrasts, temper, margin, common), own
        if near is not None:
            assert own is not None
            each, offset = tangent(problem, own, near)
            rows = rows + both(offset, contrasts.opponents)
        losing = np.isfinite(rows)
        opponents = contrasts.opponents
        if closing is not None:
            opponents, rows = with_closing(problem, contrasts, rows, closing, common)
        programs = ContrastPrograms.of(problem.squared_weights, opponents, rows, cost_model.prices, each)
        # `strict` is off: a live study must go on, and a plan slightly above the cheapest is good enough.
        solution = solve(
            programs, accuracy=accuracy, max_steps=steps, strict=False, start=solution, pace=cost_model.pace
        )
        if problem.rho is not None:
            assert own is not None
            plain = near is None  # the first solve ignored the noise
            near = enlarged(solution.allocation, own, problem.noise_variance) if plain else solution.allocation
        slots = slice(0, contrasts.gap.shape[-3])
        shares, own_rows, dual = np.zeros(contrasts.gap.shape), rows[:, slots], solution.dual[:, slots]
        losing &= np.isfinite(own_rows)
        shares[losing] = dual[losing] * own_rows[losing]
        safety = np.sqrt(2 * np.maximum(np.log(temper.caution / np.maximum(shares[losing], 1e-9)), 0.0))
        margin[losing] = np.clip(safety, LEAST_MARGIN, MOST_MARGIN)
    assert solution is not None
    return solution, programs.touched(), shares


def with_closing(
    problem: Problem, contrasts: Contrasts, rows: FloatArray, closing: Closing, variance: float
) -> tuple[IntArray, FloatArray]:
    """Add to opponents and rows a slot in which agents with several contenders plan to close their questions.

    In this slot every arm is its own opponent, so an arm's row bounds twice the variance of its mean. For agents with
    several contenders, these rows replace all others.
    """
    closed = np.square(problem.tolerance / closing.quantile)[:, None, None, :]
    inside = closing.contenders[:, None]
    several = (inside.sum(axis=-2, keepdims=True) > 1) & np.isfinite(rows).any(axis=(-3, -2), keepdims=True)
    itself = np.broadcast_to(np.arange(problem.arm_count)[:, None], (len(rows), 1, *problem.shape))
    alone = np.where(several, np.where(inside, closed, closing.outside[:, None]) / variance, np.inf)
    kept = np.where(several, np.inf, rows)
    return np.concatenate([contrasts.opponents, itself], axis=-3), np.concatenate([kept, alone], axis=-3)


def size_of_look(
    spent: FloatArray,
    wanted: FloatArray,
    looks: IntArray,
    temper: Temper,
    closes: FloatArray,
    growth: FloatArray,
    steps: float,
    *,
    firm: bool,
    stated: bool,
) -> FloatArray:
    """`(batch,)`: the cost of the next phase of a study with a planned closing look.

    A phase that costs `wanted` is expected to end the study. `closes (batch,)` is the rough cost of closing it. The
    remaining `looks (batch,)` are spread up to that cost in factors of `steps`, and no phase multiplies what was spent
    by more than `growth (batch,)`. `firm` means that the last round is stated, `stated` that it or the option `rounds`
    is. Otherwise a study that is far from closing gets more looks.
    """
    whole = spent + closes
    needed = 1.0 if stated else np.ceil(np.log(whole / spent) / np.log(growth))
    before = 1.0 - np.maximum(looks, needed)
    # An apparent tie after few draws may still be a clear gap, so a phase must not grow too much at once.
    longest = np.inf if firm else (growth - 1) * spent
    most = np.where(before < 0, np.minimum(whole * steps**before - spent, longest), np.inf)
    slowest = STATED_LOOKS if stated and not firm else MANY_LOOKS
    least = (temper.smallest_growth - 1) * spent
    least = np.maximum(least, np.where(before < 0, whole * slowest**before - spent, 0.0))
    return np.maximum(np.minimum(wanted, np.maximum(most, least)), least)


def growth_to_close(problem: Problem, temper: Temper, closing: Closing) -> FloatArray:
    """`(batch,)`: the largest growth of phases on the way to a closing look: more, the likelier arms are alike."""
    slower = min(temper.growth, max(float(temper.growth**SLOWER), SLOWEST))
    if closing.alike is None:
        return np.asarray(slower)
    swift = max(manner(problem).swift, slower)
    return np.asarray(slower * (swift / slower) ** (closing.alike**ALIKE_POWER))


def on_the_way(
    spent: FloatArray, wanted: FloatArray, looks: IntArray, contrasts: Contrasts, shares: FloatArray, temper: Temper
) -> FloatArray:
    """`(batch,)`: the least cost of the next phase with which the remaining `looks` suffice.

    The total spent grows from look to look by equal factors, up to the cost that would end the study if gaps were a
    little smaller than estimated. The last look relies on the gaps as estimated. With few looks, the factors are large.
    `shares` are the contrasts' shares of the `wanted` cost.
    """
    left = np.maximum(looks, 1)
    signal = np.maximum(contrasts.gap, 0.0) / np.where(contrasts.losing, contrasts.error, 1.0)
    smaller = np.where(looks > 1, SMALLER, 0.0)[:, None, None, None]
    harder = (np.square(signal) + temper.optimism**2) / np.square(np.maximum(signal - smaller, LEAST_SIGNAL))
    needed = wanted * np.where(contrasts.losing, shares * harder, 0.0).sum(axis=(-3, -2, -1))
    growth = np.exp(np.log1p(needed / spent) / left)
    return np.asarray(spent * (np.minimum(growth, FASTEST) - 1))


def enlarged(draws: FloatArray, variances: FloatArray | float, noise: float) -> FloatArray:
    """The draws d at which a private mean is as precise as `draws` without noise: v / d + noise / d^2 = v / draws.

    >>> enlarged(np.array([100.0]), 0.25, 10.0).round(1).tolist()
    [130.6]
    """
    share = noise / (variances * np.maximum(draws, 1e-9))
    return np.asarray(draws * (1 + np.sqrt(1 + 4 * share)) / 2)


def worth_the_noise(problem: Problem, draws: FloatArray, past: Totals) -> FloatArray:
    """`(batch,)`: the least factor on a phase that keeps privacy noise within sampling variance in a mean cell."""
    drawn = draws > 0
    hidden = np.where(drawn, problem.noise_variance / problem.noise.cell_variances(past), 0.0)
    return np.asarray(hidden.sum(axis=(-2, -1)) / np.maximum(draws.sum(axis=(-2, -1)), 1e-9))


def tangent(problem: Problem, variances: FloatArray, draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Linearize the variances of private means around a plan of `draws`.

    Returns variances of single rewards and additions to right sides, `(..., arm, agent)` each. If reports are private,
    a cell's mean has the variance v z + s^2 z^2, where z = 1 / draws, v is the variance of a reward, and s^2 is the
    variance of the noise in a sum. Programs must be linear in z, so they get the tangent at the z0 of the plan,
    (v + 2 s^2 z0) z - s^2 z0^2. Solving repeatedly is Newton's method for the true program.
    """
    z = np.divide(1.0, draws, out=np.zeros(draws.shape), where=draws > 0)
    noise = problem.noise_variance
    return variances + 2 * noise * z, noise * np.square(z) @ problem.squared_weights


def _rows(problem: Problem, contrasts: Contrasts, temper: Temper, margin: FloatArray, variance: float) -> FloatArray:
    """The target variance of every losing contrast, divided by the reward's `variance`; inf for all other contrasts."""
    losing = contrasts.losing
    gaps = np.square(np.maximum(contrasts.gap, 0.0)) + np.square(temper.optimism * contrasts.error)
    stakes = problem.noise.stake(contrasts.missing[losing], margin[losing])
    rows = np.full(gaps.shape, np.inf)
    rows[losing] = gaps[losing] / np.square(np.maximum(stakes, LEAST_STAKE)) / variance
    return rows


USUAL = 5  # default of the option `rounds`
# Option `rounds` -> mean draws relative to `rounds = 5`, and mean rounds, as measured (docs/appendix, delta 0.1).
TRADE = {3: (2.57, 2.7), 4: (1.43, 3.3), 5: (1.0, 4.9), 6: (0.936, 5.7), 7: (0.907, 6.4), 8: (0.891, 7.2)}


def affordable_rounds(problem: Problem, line: float, gap_scale: float) -> int:
    """The option `rounds` that should make draws and rounds together cheapest, if gaps are `gap_scale * largest_gap`.

    The first phase gives contrasts a known variance, and further draws must bring it down to gap^2 / stake^2. This
    rough size of the study serves only to trade draws for rounds.

    >>> weekly = Problem(arms=4, weights=np.eye(2), rate=10, round_days=7)
    >>> affordable_rounds(weekly, 3.0, 0.2), affordable_rounds(weekly.with_(round_days=200), 3.0, 0.2)
    (7, 4)
    """
    overhead = round_overhead(problem)
    if overhead == 0:
        return USUAL
    precision = TEMPERS[USUAL][0]
    first = np.broadcast_to(first_draws(problem, precision, line), problem.shape)
    cost_model = CostModel.of(problem)
    if cost_model.pace is None:  # a day has no price: compare days instead
        spent, a_round = float(days_needed(first, stated_rates(problem))), overhead
    else:
        spent, a_round = float(cost_model.spent(first)), cost_model.pace.day_cost * overhead
    stake = float(problem.noise.stake(np.array([line]), np.array([FIRST_MARGIN]))[0])
    variance = 2 * precision**2 * math.sqrt(math.log(30) / line)  # of a contrast after phase 1, over largest_gap^2
    study = spent * (1 + variance * stake**2 / gap_scale**2)
    return min(TRADE, key=lambda rounds: study * TRADE[rounds][0] + a_round * TRADE[rounds][1])
