"""`parley analyze`: analyse a finished table whose size was fixed in advance."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.cli.console import (
    checked_output,
    json_option,
    output_option,
    print_json,
    progress_bar,
    say,
    screen,
    seed_option,
    write_page,
)
from parley.errors import InvalidInput
from parley.experiments.analysis import analysis_page as pages
from parley.experiments.analysis.fixed_size import Analysis, analysed, usual_model
from parley.experiments.analysis.sequential import MOST, Sequential, sequential
from parley.problem import Problem
from parley.settings import SETTINGS
from parley.study import DEFAULT_POLICY, load_study
from parley.text.translation import reading
from parley.validation.checks import FloatArray
from parley.validation.tables import AGENT, ARM, COVARIATE, NO_COLUMN, OUTCOME, Draws, columns_of, draws_of, load_table
from parley.weights import from_file, identity, personalized, population

MOST_DRAWS = 60_000_000  # draws in all simulated studies together: on a large table, fewer studies are simulated
LEAST_STUDIES = 20
USUAL_DELTA = 0.05


@dataclass(frozen=True, kw_only=True)
class Question:
    """The question that the table should answer (names, weights, delta), and the policy of a sequential study."""

    problem: Problem
    weights: str  # a sentence on where the weights come from
    policy: str = DEFAULT_POLICY
    options: Mapping[str, Any] = field(default_factory=dict)
    stated: bool = False  # whether a study file states the question, and with it how large a gap may be


@click.command()
@click.argument("table", type=click.Path(dir_okay=False), metavar="TABLE")
@click.option("--arm", metavar="COLUMN", help="Column of the arms. Default: `arm`, `treatment`, `variant`, ...")
@click.option(
    "--agent",
    metavar="COLUMN",
    help="Column of the agents (sites). Default: `agent`, `site`, `market`, ...; "
    f"`{NO_COLUMN}`: all rows belong to one agent.",
)
@click.option("--outcome", metavar="COLUMN", help="Column of the outcomes. Default: `outcome`, `reward`, `y`, ...")
@click.option("--covariate", metavar="COLUMN", help="Adjust for this column, known before the arm was assigned.")
@click.option(
    "--study", "file", type=click.Path(dir_okay=False), help="Study file with arms, agents, weights and delta."
)
@click.option(
    "--alpha", type=float, help="Weights: this share for an agent's own mean, the rest for everybody's average."
)
@click.option("--weights", "matrix", type=click.Path(dir_okay=False), help="Weights: a matrix in a .csv or .npy file.")
@click.option("--pooled", is_flag=True, help="Weights: all agents ask for the arm that is best over all rows.")
@click.option("--delta", type=float, help=f"Probability that any statement is wrong. Default: {USUAL_DELTA:g}.")
@click.option("--control", metavar="ARM", help="Also compare every arm with this one.")
@click.option("--tolerance", type=float, help="An arm at most this much worse than the best is good enough.")
@click.option(
    "--replications",
    default=200,
    show_default=True,
    help="Sequential studies to simulate on the rows; fewer on a large table, 0 for none.",
)
@seed_option
@output_option("parley-analysis.html")
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write every figure to this folder, as PNG and SVG, light and dark.",
)
@json_option
def analyze_command(
    table: str,
    arm: str | None,
    agent: str | None,
    outcome: str | None,
    covariate: str | None,
    file: str | None,
    alpha: float | None,
    matrix: str | None,
    pooled: bool,
    delta: float | None,
    control: str | None,
    tolerance: float | None,
    replications: int,
    seed: int,
    output: str,
    figures: Path | None,
    as_json: bool,
) -> None:
    """Analyse a finished TABLE (CSV, TSV, Parquet, Excel) that has a row for every draw: its arm, agent and outcome.

    Each agent asks about mixed means: averages of all agents' means, with stated weights. The command shows mixed means
    and their differences with simultaneous intervals, what they say about every agent's best arm, and what a sequential
    study would have needed. The size of the table must have been fixed in advance.
    """
    checked_output(output)
    if replications < 0:
        raise InvalidInput("--replications", found=replications, allowed="at least 0")
    given = {"--study": file, "--alpha": alpha, "--weights": matrix, "--pooled": pooled or None}
    stated = [option for option, value in given.items() if value is not None]
    if len(stated) > 1:
        raise InvalidInput(" and ".join(stated), found="both", allowed="one of them: each states the weights")
    study = None if file is None else load_study(file)
    if covariate is None and study is not None:
        covariate = study.problem.covariate
    loaded, named = load_table(table), {ARM: arm, AGENT: agent, OUTCOME: outcome, COVARIATE: covariate}
    columns = columns_of(loaded, named, optional=(AGENT,) if agent == NO_COLUMN else ())
    chosen = {"delta": delta, "control": control, "tolerance": tolerance}
    changes = {key: value for key, value in chosen.items() if value is not None}
    if study is not None:
        # The whole table is adjusted for the covariate at once, so the problem itself has no covariate.
        plain = {name: row.default_value for name, row in SETTINGS.items() if row.section == "covariate"}
        plain |= {"noise": study.problem.noise.outcome or study.problem.noise}
        problem, weights = study.problem.with_(**plain | changes), f"Weights are those of {file}."
        draws = draws_of(loaded, columns, arms=problem.arms, agents=problem.agents)
        asked = Question(problem=problem, weights=weights, policy=study.policy, options=study.options, stated=True)
    else:
        draws = draws_of(loaded, columns)
        asked = _question(draws, alpha, matrix, pooled, changes)
    typed = named | given | chosen | {"replications": replications, "seed": seed}
    command = " ".join(["parley analyze", shlex.quote(table), *_typed(typed)])
    with reading(asked.problem.audience):
        found = analysed(asked.problem, draws)
        beside = _simulated(asked, found, replications, seed, quiet=as_json)
        title = f"Analysis: {Path(table).name}"
        page = pages.analysis_page(found, title=title, command=command, weights=asked.weights, beside=beside)
        path = write_page(output, page)
        files = [] if figures is None else _drawn(found, beside, figures, command)
        if as_json:
            document = {"table": table, "rows": len(draws.outcome), "columns": columns, "delta": found.problem.delta}
            document |= {"control": found.problem.control, "weights": found.problem.weights.tolist()} | found.document()
            document |= {"sequential": beside and beside.document(), "report": str(path)}
            print_json(document | {"figures": list(map(str, files))})
            return
        _show(Path(table).name, found, asked, beside)
        screen.print(f"Pictures, and the rows by site: {path.resolve()}", soft_wrap=True)
        if figures is not None:
            say(f"{len(files)} figures in {figures}")


def _drawn(found: Analysis, beside: Sequential | None, folder: Path, command: str) -> list[Path]:
    """Write every figure to files in `folder`; returns their paths. Only this function loads matplotlib."""
    from parley.experiments.analysis.analysis_figures import analysis_figures
    from parley.experiments.report_kit.charts import save_figure

    drawn = analysis_figures(found, beside).items()
    return [file for name, draw in drawn for file in save_figure(draw, folder, name, title=command)]


def _typed(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the command-line options that set these values; a value of None needs no option."""
    for name, value in options.items():
        if value is not None:
            option = name if name.startswith("--") else f"--{name}"
            yield option if value is True else f"{option} {shlex.quote(str(value))}"


def _question(
    draws: Draws, alpha: float | None, matrix: str | None, pooled: bool, changes: Mapping[str, Any]
) -> Question:
    """Make a question from the table itself: its arms and agents, with weights from the options."""
    if len(draws.arms) < 2:
        raise InvalidInput(draws.source, found=f"one arm, {draws.arms[0]}", allowed="at least 2 arms")
    agents = len(draws.agents)
    weights: FloatArray
    if alpha is not None:
        weights = personalized(agents, alpha)
        words = f"Every agent's mix has the weight {alpha:g} on its own mean, and the rest on the average of all."
    elif matrix is not None:
        weights, words = from_file(Path(matrix)), f"Weights are those of {matrix}."
    elif pooled:
        weights = population(np.bincount(draws.agent, minlength=agents).tolist())
        words = "Every agent asks about all rows together."
    else:
        weights, words = identity(agents), "Every agent asks about its own rows alone: no other weights were stated."
    settings = {"delta": USUAL_DELTA, **changes}
    noise = usual_model(draws.outcome)
    problem = Problem(arms=draws.arms, agents=draws.agents, weights=weights, noise=noise, **settings)
    return Question(problem=problem, weights=words)


def _simulated(asked: Question, found: Analysis, replications: int, seed: int, *, quiet: bool) -> Sequential | None:
    """Simulate sequential studies on the table's rows; None without replications, or if the study has a horizon."""
    problem, own = found.problem, found.adjustment is None and asked.policy != "oracle"
    if not replications or problem.horizon is not None:
        return None
    widest = float(np.ptp(found.mean.value, axis=0).max())
    if not asked.stated and not problem.noise.in_range:
        problem = problem.with_(largest_gap=2 * widest or 1.0)
    elif widest > problem.largest_gap:
        problem = problem.with_(largest_gap=widest)
    fewer = max(LEAST_STUDIES, MOST_DRAWS // (MOST * len(found.draws.outcome)))
    count = min(replications, fewer)
    with progress_bar("sequential studies", count, hidden=quiet) as advance:
        return sequential(
            problem,
            found.draws,
            policy=asked.policy if own else DEFAULT_POLICY,
            options=asked.options if own else {},
            replications=count,
            seed=seed,
            progress=advance,
        )


def _show(name: str, found: Analysis, asked: Question, beside: Sequential | None) -> None:
    screen.print(pages.verdict_table(f"{name}: {100 * (1 - found.problem.delta):g} % together", found))
    document = found.document() | {"control": found.problem.control}
    for agent in document["agents"][: pages.MOST_FORESTS]:
        screen.print(pages.estimates_table(agent["agent"], document, agent, rates=found.rates))
    say(asked.weights)
    if found.adjustment is not None:
        screen.print(pages.slopes_table(f"Adjusted for {found.adjustment.name}", found))
    if beside is not None:
        say(pages.sequential_words(beside))
