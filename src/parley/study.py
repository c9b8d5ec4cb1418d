"""The study file: from TOML to a `Study` (a problem, a policy, perhaps a truth).

`SECTIONS` holds the keys of every section, gathered from the modules that use them. An unknown key raises an error that
lists the known keys. `make generated` writes the tables of docs/study-file.md from `SECTIONS`.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from parley.covariates import LAWS, CovariateTruth
from parley.errors import InvalidInput, InvalidStudy, UnknownName
from parley.outcomes import outcome_keys, study_outcomes
from parley.problem import Drift, Instance, Problem, top_gaps
from parley.questions import ASKS, MOST_ASKED, QUESTIONS, asked_by
from parley.rewards import noise_keys, section_keys, study_model
from parley.rewards.history import History, history_of
from parley.settings import NUMBER, REQUIRED, SETTINGS, Key, check_section, full_name, rounded_up, why_largest_gap
from parley.text.formatting import plural
from parley.validation.checks import LARGEST_SCALE, FloatArray, above_zero, number, real_array, whole
from parley.validation.tables import AGENT, ARM, COVARIATE, OUTCOME, columns_of, draws_of, load_table
from parley.weight_map import step_columns
from parley.weights import LARGEST_SEED, WEIGHTS

DEFAULT_POLICY = "evidence"
PLAYING_POLICY = "evidence-regret"  # used with a horizon

GENERATORS = ("paper",)
COVARIATE_TRUTH = ("correlation", "drift", "law")
SOME = {"minimum": 1, "minItems": 1}

QUESTION = {
    "name": Key(kinds=(str,), meaning="shown in tables and reports", default="the file's name"),
    "arms": Key(kinds=(int, list), meaning="how many arms, or their names; at least 2", default=REQUIRED, limits=SOME),
    "agents": Key(kinds=(int, list), meaning="how many agents, or their names", default=REQUIRED, limits=SOME),
}
POLICY = {  # every other key is an option of the chosen policy, which checks it
    "name": Key(
        kinds=(str,),
        meaning="the name of the policy; [policies](policies.md) lists them",
        default="`evidence`; `evidence-regret` with a horizon",
    )
}
TRUTH = {
    "outcomes": Key(
        kinds=(dict,),
        meaning="the true local means of [further outcomes](outcomes.md), as in "
        "`{ bleeding = [[0.06, 0.06], [0.2, 0.2]] }`",
        default="none: they are not simulated",
    ),
    "correlation": Key(
        kinds=NUMBER,
        meaning="between each of them and the primary outcome of the same draw, where both are 0 or 1 or both Gaussian",
        default="0",
        limits={"exclusiveMinimum": -1, "exclusiveMaximum": 1},
    ),
    "means": Key(
        kinds=(list,),
        meaning="the true local means, a row per arm, a column per agent",
        default="this, `generate` or `data`",
    ),
    "generate": Key(
        kinds=(str,),
        meaning='`"paper"`: the paper\'s recipe; with 6 arms, 3 agents and seed 0 it gives the instance of its tables',
        limits={"enum": list(GENERATORS)},
    ),
    "data": Key(
        kinds=(str,),
        meaning="a [table of past draws](planning.md#plans-from-a-table), relative to the study file: CSV, TSV, "
        "Parquet or Excel. Its rows are drawn again, per agent, and per arm where there is such a column",
    ),
    "columns": Key(
        kinds=(dict,),
        meaning='data: the columns, as in `{ agent = "site", arm = "treatment", outcome = "y" }`; `arm = "none"`: '
        "every row may be of any arm",
        default="columns with usual names, such as `site`, `arm`, `outcome`",
    ),
    "effects": Key(
        kinds=(list,),
        meaning="data: added to the mean of the rows, a number per arm, or a row per arm with a column per agent",
        default="0; required where the table has no arms",
    ),
    "scale": Key(
        kinds=(int, float, list),
        meaning="gaussian, subgaussian: the standard deviation for simulations and bounds: a number, a row per agent "
        "or a matrix",
        default="`noise.scale`, or `noise.guess` where that is unknown",
    ),
    "drift": Key(
        kinds=(int, float, list),
        meaning="how the means move between phases, every arm of a site alike: the standard deviation of each site's "
        "random step, or a list of the steps that all sites take together",
        default="0: nothing moves",
    ),
    "season": Key(kinds=NUMBER, meaning="how far a wave moves all sites up and down", default="0"),
    "season_phases": Key(kinds=(int,), meaning="season: the length of the wave, in phases", default="4"),
    "opens": Key(
        kinds=(dict,),
        meaning="the phase in which a dormant arm is [opened](changes.md#arms-that-come-and-go), as in `{ D = 3 }`: "
        "drawn from the next one on",
        default="none",
    ),
    "withdraws": Key(
        kinds=(dict,),
        meaning="the phase in which an arm is [withdrawn](changes.md#arms-that-come-and-go)",
        default="none",
    ),
    "covariate": Key(
        kinds=(dict,),
        meaning="how [covariate](covariates.md) and outcomes go together: `correlation` within arms (a number, a row "
        "per agent or a matrix), `drift` of each site's mean between phases (in standard deviations), `law` "
        '(`"gaussian"` or `"lognormal"`), as in `{ correlation = 0.5, drift = 1 }`',
        default="`covariate.correlation`, Gaussian, no drift",
    ),
    "seed": Key(kinds=(int,), meaning="generate: the seed", default="0"),
    "min_gap": Key(kinds=NUMBER, meaning="generate: draw again until every gap is at least this large", default="0.05"),
}

# The recipe repeats its draw until all gaps are wide enough; after this many attempts, `min_gap` counts as impossible.
MAX_DRAWS = 10_000


def _sections() -> dict[str, dict[str, Key]]:
    made: dict[str, dict[str, Key]] = {"": dict(QUESTION)}
    made |= {"weights": dict(WEIGHTS), "questions": dict(QUESTIONS), "noise": noise_keys(), "outcomes": outcome_keys()}
    made |= {"policy": dict(POLICY)}
    for row in SETTINGS.values():
        if row.in_file:
            made.setdefault(row.section, {})[row.key] = row
    made["sites"]["asks"] = ASKS
    return made | {"truth": dict(TRUTH)}


# Section -> its keys, in the order of the docs; "" holds the keys outside of any section.
SECTIONS = _sections()
REPEATED = frozenset({"outcomes", "questions"})  # sections [[name]], of which there may be several
# The names that bandit papers, A/B testing tools and trial software use for our keys, in lower case.
NEIGHBOURS: dict[str, tuple[str, ...]] = {
    word: places
    for places, words in {
        ("max_samples",): "budget max_draws max_pulls sample_budget sample_size max_n n_samples max_participants",
        ("max_rounds",): "rounds max_phases phases batches looks max_looks stages interims n_rounds",
        ("tolerance",): "epsilon eps slack indifference indifference_zone margin mde equivalence",
        ("delta", "weights.alpha"): "alpha",
        ("delta",): "confidence error error_rate error_probability significance level fwer risk failure_probability",
        ("arms",): "k n_arms n_treatments treatments variants actions designs systems",
        ("agents",): "m n_agents players clients users centres centers hospitals markets groups strata",
        ("top", "max_samples"): "n",
        ("top",): "top_k top_n n_best best_n subset_size",
        ("horizon",): "t n_draws draws_per_agent",
        ("largest_gap",): "max_gap largest_effect max_effect gap_max effect_range",
        ("control",): "baseline reference placebo control_arm",
        ("noise.scale",): "sigma std sd stdev standard_deviation variance noise_scale noise_std",
        ("noise.kind",): "reward reward_model rewards distribution family model outcome",
        ("weights.kind",): "w mix mixing collaboration",
        ("policy.name",): "algorithm algo method strategy design",
        ("truth.means",): "mu theta true_means effects rates",
        ("sampling.price",): "cost costs prices sample_cost",
        ("sampling.rate",): "recruitment accrual enrolment enrollment traffic draws_per_day",
        ("privacy.rho",): "zcdp",
    }.items()
    for word in words.split()
}


def meant(section: str, key: str) -> str | None:
    """A suggestion for an unknown key: our name for it, or the section to which it belongs; None if there is neither.

    >>> meant("", "budget"), meant("", "alpha"), meant("noise", "sigma")
    ('Did you mean max_samples?', 'Did you mean delta, or alpha in [weights]?', 'Did you mean scale?')
    >>> meant("noise", "top")
    'Did you mean top, outside of any section?'
    """
    elsewhere = [full_name(other, key) for other, keys in SECTIONS.items() if key in keys and other != section]

    def shown(place: str) -> str:
        other, _, name = place.rpartition(".")
        header = f"[[{other}]]" if other in REPEATED else f"[{other}]"
        return name if other == section else f"{name} in {header}" if other else f"{name}, outside of any section"

    places = dict.fromkeys([*NEIGHBOURS.get(key.lower(), ()), *elsewhere])
    return f"Did you mean {', or '.join(map(shown, places))}?" if places else None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the study file, made from `SECTIONS`. Editors use it to complete, explain and check keys.

    Rules that depend on other keys (how many names, which keys belong to a kind) are left to `parse_study`.

    >>> json_schema()["properties"]["sites"]["properties"]["counts"]["enum"]
    ['exact', 'flexible']
    """
    sections: dict[str, dict[str, Any]] = {
        name: {
            "type": "object",
            "properties": {key: row.schema for key, row in keys.items()},
            "additionalProperties": name == "policy",  # its other keys are options of the policy
        }
        for name, keys in SECTIONS.items()
    }
    outcomes = sections["outcomes"]
    outcomes["properties"] = sections["noise"]["properties"] | outcomes["properties"]
    for name in REPEATED:
        sections[name] = {"type": "array", "items": sections[name]}
    question = sections.pop("")
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A Parley study file",
        **question,
        "properties": question["properties"] | sections,
        "required": [key for key, row in QUESTION.items() if row.default == REQUIRED],
    }


A_SECTION, SEVERAL = Key(kinds=(dict,), meaning="a section"), Key(kinds=(list,), meaning="sections")
MOST_ARMS = 100_000
MOST_DOTS = 16  # most dots in one key: ours have one dot, and tomllib takes quadratic time in the number of dots


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study: the problem, the policy that answers it and, for simulations and bounds, the truth.

    >>> study = parse_study({"arms": 3, "agents": 2, "truth": {"generate": "paper"}})
    >>> study.name, study.policy, study.instance.means.shape
    ('study', 'evidence', (3, 2))
    """

    name: str = "study"
    problem: Problem
    policy: str = DEFAULT_POLICY
    options: Mapping[str, Any] = field(default_factory=dict)
    instance: Instance | None = None
    reason: str = ""  # why these weights were chosen

    def require_truth(self) -> Instance:
        """Return the instance, or raise an error that says how to add a [truth] section."""
        if self.instance is None:
            raise InvalidInput(
                "truth",
                found="a study without a [truth] section",
                allowed='means = [[...], ...] (a row per arm, a column per agent), generate = "paper" or data = "FILE"',
                hint="Bounds and simulations need true means",
            )
        return self.instance


def load_study(path: str | Path) -> Study:
    """Read a study file. Every error names the file.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.toml"
    ...     _ = path.write_text("arms = 4; agents = 3; delta = 0.05".replace("; ", chr(10)))
    ...     study = load_study(path)
    >>> study.name, study.problem.delta, study.problem.agent_count
    ('mine', 0.05, 3)
    """
    path = Path(path)
    document = read_toml_file("study file", path)
    try:
        return parse_study(document, folder=path.parent, default_name=path.stem)
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def read_toml_file(key: str, path: Path) -> dict[str, Any]:
    """Read a TOML file; errors refer to it as `key`."""
    try:
        return read_toml(path.read_text(encoding="utf-8-sig"))  # some editors write a byte order mark
    except FileNotFoundError:
        raise InvalidInput(key, found=f"no file at {path}", allowed="the path of a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(key, found=f"{path}: {error}", allowed="a readable TOML file") from None
    except InvalidInput as error:
        raise InvalidStudy(str(path), error) from None


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML, or raise an error that says what is wrong with it.

    >>> read_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    for place, line in enumerate(text.splitlines(), start=1):
        pieces = re.split(r"[,{]", line) if line.count(".") > MOST_DOTS else ()
        # Only dots of keys count: dots in headers, and dots before an equals sign.
        header = line.lstrip().startswith("[")
        if any(piece.split("=")[0].count(".") > MOST_DOTS for piece in pieces if header or "=" in piece):
            raise InvalidInput(
                f"TOML, line {place}", found="a key with too many dots", allowed=f"up to {MOST_DOTS} dots"
            )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a plain ValueError comes from a number of 5,000 digits
        raise InvalidInput("TOML", found=f"a syntax error: {error}"[:200], allowed="valid TOML") from None


BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(document: Mapping[str, Any], *, inline: bool = False) -> str:
    """A study document as TOML, with keys in the order of the docs; `read_toml` restores it.

    >>> print(toml_text({"weights": {"kind": "identity"}, "questions": [{"name": "all"}], "arms": ["a", "b"]}), end="")
    arms = ["a", "b"]
    <BLANKLINE>
    [weights]
    kind = "identity"
    <BLANKLINE>
    [[questions]]
    name = "all"
    """
    order = {name: place for place, name in enumerate([*SECTIONS[""], *SECTIONS])}
    given = sorted(document.items(), key=lambda item: order.get(item[0], len(order)))
    top, tables = list[str](), list[str]()
    for key, value in given:
        if inline or not isinstance(value, dict | list) or (isinstance(value, list) and not _are_tables(value)):
            top.append(f"{_toml_key(key)} = {_toml_value(value)}")
            continue
        header = f"[{_toml_key(key)}]" if isinstance(value, dict) else f"[[{_toml_key(key)}]]"
        for table in [value] if isinstance(value, dict) else value:
            rows = [f"{_toml_key(inner)} = {_toml_value(one)}" for inner, one in table.items()]
            tables.append("\n".join([header, *rows]) + "\n")
    return "\n".join(["\n".join(top) + "\n" if top else "", *tables]).lstrip("\n")


def _are_tables(value: list[Any]) -> bool:
    return bool(value) and all(isinstance(one, dict) for one in value)


def _toml_key(key: str) -> str:
    return key if BARE.fullmatch(key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    """A value as TOML: on one line, except that each row of a matrix has a line of its own."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case bool():
            return "true" if value else "false"
        case dict():
            inner = ", ".join(f"{_toml_key(key)} = {_toml_value(one)}" for key, one in value.items())
            return f"{{ {inner} }}" if inner else "{}"
        case list() if len(value) > 1 and all(isinstance(one, list) for one in value):
            return "[\n" + "".join(f"    {_toml_value(one)},\n" for one in value) + "]"
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case _:  # numbers, and dates, which no key accepts
            return value.isoformat() if hasattr(value, "isoformat") else repr(value)


def parse_study(document: Mapping[str, Any], *, folder: Path = Path(), default_name: str = "study") -> Study:
    """Check a parsed study document and build the study; relative paths in the document start at `folder`.

    >>> study = parse_study({"arms": 2, "agents": 2, "weights": {"kind": "personalized", "alpha": 0.5}})
    >>> study.problem.weights.tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    kinds = {name: SEVERAL if name in REPEATED else A_SECTION for name in SECTIONS if name}
    check_section("", document, SECTIONS[""] | kinds, meant=meant)
    for key in ("arms", "agents"):
        if key not in document:
            raise InvalidInput(key, found="nothing", allowed="a whole number or a list of names")
    inner = {name: document.get(name, {}) if name else document for name in SECTIONS if name not in REPEATED}
    for name in filter(None, inner):
        known = section_keys(inner[name]) if name == "noise" else SECTIONS[name]
        check_section(name, inner[name], known, open_to_others=name == "policy", meant=meant)
    counts = {key: given if isinstance(given := document[key], int) else len(given) for key in ("agents", "arms")}
    for key, most in (("agents", MOST_ASKED), ("arms", MOST_ARMS)):
        if not 1 <= counts[key] <= most:
            raise InvalidInput(key, found=counts[key], allowed=f"from 1 to {most:,}")
    # From here on, agents are sites and further questions, so values per site become values per agent.
    asked = asked_by(document, counts["agents"], folder)
    inner = {name: asked.per_agent(name, keys) for name, keys in inner.items()}
    noise = study_model(inner["noise"])
    rows = {name: row for name, row in SETTINGS.items() if row.in_file}
    settings = {name: inner[row.section][row.key] for name, row in rows.items() if row.key in inner[row.section]}
    problem = Problem(
        arms=document["arms"],
        agents=asked.agents,
        weights=asked.weights,
        noise=noise,
        outcomes=study_outcomes(document.get("outcomes", ())),
        **{"largest_gap": noise.usual_gap} | settings | dict(asked.roles),
    )
    problem.require_question()
    instance = truth_of(inner["truth"], problem, folder) if "truth" in document else None
    if instance is not None:
        instance = _within(instance, stated="largest_gap" in settings)
        problem = instance.problem
    policy = dict(inner["policy"])
    return Study(
        name=document.get("name", default_name),
        problem=problem,
        policy=policy.pop("name", DEFAULT_POLICY if problem.horizon is None else PLAYING_POLICY),
        options=policy,
        instance=instance,
        reason=inner["weights"].get("reason", ""),
    )


def paper_means(problem: Problem, *, seed: int = 0, min_gap: float = 0.05) -> FloatArray:
    """The paper's recipe (Appendix E): Gaussian means divided by their Frobenius norm.

    They are drawn again until no gap is below `min_gap`. NumPy's legacy generator is used, so seed 0 with 6 arms and 3
    agents gives exactly the instance of the paper's tables.
    """
    above_zero("truth.min_gap", min_gap)
    generator = np.random.RandomState(whole("truth.seed", seed, 0, LARGEST_SEED))
    # With weights in doubt, only gaps at the middle step count: elsewhere arms may tie, within the tolerance.
    steps = step_columns(problem)
    stated = slice(problem.agent_count - steps.size + len(steps))
    for _ in range(MAX_DRAWS):
        draw = generator.normal(0, 1, (problem.arm_count, len(problem.sites)))
        means: FloatArray = (draw / np.linalg.norm(draw))[:, problem.from_sites]
        if top_gaps(problem.mixed(means), problem.top)[:, stated].min() >= min_gap:
            return means
    raise InvalidInput(
        "truth.min_gap",
        found=f"{min_gap}, which none of {MAX_DRAWS:,} random instances of {problem.shape[0]} arms reached",
        allowed="a smaller gap",
    )


FORMS = {"means": (), "generate": ("seed", "min_gap"), "data": ("columns", "effects")}  # kind of truth -> its own keys


def truth_of(section: Mapping[str, Any], problem: Problem, folder: Path = Path()) -> Instance:
    """The instance that a [truth] section describes; relative paths in the section start at `folder`."""
    stated = [form for form, own in FORMS.items() if set(section) & {form, *own}]
    if len(stated) > 1:
        raise InvalidInput("truth", found=", ".join(section), allowed=f"only one of {', '.join(FORMS)}")
    if "data" in section:
        if problem.asks_only:
            allowed = "means or generate in a study with questions, or with weights in doubt"
            raise InvalidInput("truth.data", found=f"data and the question {problem.asks_only[0]!r}", allowed=allowed)
        return _resampled(section, problem, folder)
    if "means" in section:
        return _instance(section, problem, section["means"])
    generate = section.get("generate")
    if generate not in GENERATORS:
        if generate is None:
            found = ", ".join(section) or "an empty section"
            raise InvalidInput("truth", found=found, allowed="means, generate or data")
        raise UnknownName("truth.generate", generate, GENERATORS)
    recipe = {key: section[key] for key in ("seed", "min_gap") if key in section}
    means = paper_means(problem, **recipe)
    try:
        problem.noise.check_means(means)
    except InvalidInput:
        raise InvalidInput(
            "truth.generate",
            found=f"means from {means.min():.3f} to {means.max():.3f}, rewards in another range",
            allowed="rewards whose range holds the recipe's means, which lie between -1 and 1",
        ) from None
    return _instance(section, problem, means)


def _instance(
    section: Mapping[str, Any], problem: Problem, means: Any, scale: Any = None, history: History | None = None
) -> Instance:
    acts: dict[str, Any] = {
        key: _phases(f"truth.{key}", section.get(key, {}), problem) for key in ("opens", "withdraws")
    }
    stated = section.get("scale", scale)
    covariate = None if "covariate" not in section else _covariate(section["covariate"], problem)
    if problem.covariate is not None and history is not None:
        covariate = CovariateTruth(correlation=history.correlations)
    more: dict[str, Any] = {"drift": _drift(section), "history": history, "covariate": covariate}
    more |= {key: section[key] for key in ("outcomes", "correlation") if key in section}
    return Instance(problem=problem, means=means, scale=stated, **more, **acts)


def _covariate(section: Mapping[str, Any], problem: Problem) -> CovariateTruth:
    """The true relation between the covariate and the outcomes that a [truth] section states."""
    for key in section:
        if key not in COVARIATE_TRUTH:
            raise UnknownName("key in truth.covariate", key, COVARIATE_TRUTH)
    drift = _step("truth.covariate.drift", section.get("drift", 0.0))
    if drift < 0:
        raise InvalidInput("truth.covariate.drift", found=drift, allowed="a standard deviation of at least 0")
    correlation = section.get("correlation", problem.covariate_correlation)
    return CovariateTruth(correlation=correlation, drift=drift, law=section.get("law", LAWS[0]))


def _resampled(section: Mapping[str, Any], problem: Problem, folder: Path) -> Instance:
    """The instance made from a table of past draws.

    Its means are those of the past draws, shifted by the effects; its rewards scatter as the past draws do.
    """
    if "scale" in section:
        raise InvalidInput(
            "truth.scale", found="a scale beside data", allowed="data alone: its rows scatter as they do"
        )
    if "covariate" in section:
        allowed = "data alone: its column of the covariate goes with the outcomes as it does"
        raise InvalidInput("truth.covariate", found="one beside data", allowed=allowed)
    given = section.get("columns", {})
    for role, name in given.items():
        if role not in (ARM, AGENT, OUTCOME, COVARIATE):
            raise UnknownName("truth.columns", role, (ARM, AGENT, OUTCOME, COVARIATE))
        if not isinstance(name, str):
            raise InvalidInput(f"truth.columns.{role}", found=repr(name)[:60], allowed="the name of a column")
    if problem.covariate is not None:
        given = {COVARIATE: problem.covariate, **given}
    table = load_table(folder / section["data"])
    # With a single agent, no column needs to say whose rows these are.
    one = (AGENT,) if problem.agent_count == 1 else ()
    columns = columns_of(table, given, optional=(ARM, *one), option="truth.columns.{}")
    draws = draws_of(table, columns, arms=problem.arms, agents=problem.agents)
    if draws.arm is None and "effects" not in section:
        allowed = f"effects = [...], {plural(problem.arm_count, 'number')}, or a column of arms"
        raise InvalidInput("truth.effects", found=f"none, and {draws.source} has no arms", allowed=allowed)
    effects = real_array("truth.effects", section.get("effects", [0.0] * problem.arm_count), "numbers")
    if effects.shape not in ((problem.arm_count,), problem.shape) or not np.isfinite(effects).all():
        allowed = f"{problem.arm_count} numbers (one per arm), or as many rows of {problem.agent_count} (one per agent)"
        raise InvalidInput("truth.effects", found=f"numbers of shape {effects.shape}", allowed=allowed)
    if draws.covariate is not None and problem.covariate_range is not None:
        low, high = problem.covariate_range
        draws = replace(draws, covariate=np.clip(draws.covariate, low, high))  # as sites clip it
    outcomes = problem.noise.outcome or problem.noise
    history = history_of(draws, problem.arm_count, outcomes, np.asarray(problem.weights.any(axis=1)))
    means = history.means + effects.reshape(problem.arm_count, -1)
    if not outcomes.free_scale:
        return _instance(section, problem, means, history=history)
    if not (history.scales > 0).all():
        arm, agent = np.argwhere(history.scales <= 0)[0]
        of_arm = f" of {problem.arms[arm]}" if history.by_arm else ""
        found = f"only {history.pool(arm, agent)[0]:g}{of_arm} at {problem.agents[agent]}"
        raise InvalidInput(draws.source, found=found, allowed="outcomes that vary")
    return _instance(section, problem, means, scale=history.scales, history=history)


def _phases(key: str, acts: Mapping[str, Any], problem: Problem) -> dict[str, int]:
    """Check the phase in which each arm is opened or withdrawn. Raises unless enough arms remain for an answer."""
    possible = [arm for arm in problem.arms if (arm in problem.dormant) is (key == "truth.opens")]
    for arm in acts:
        if arm not in possible:
            raise InvalidInput(key, found=repr(arm), allowed=", ".join(possible) or "none: no arm is dormant")
    if key == "truth.withdraws" and len(possible) - len(acts) < problem.top:
        raise InvalidInput(key, found=", ".join(acts), allowed=f"fewer arms: {problem.top} must stay")
    return {arm: whole(key, phase, 1, LARGEST_SEED) for arm, phase in acts.items()}


def _drift(section: Mapping[str, Any]) -> Drift | None:
    """The drift of the means that a [truth] section states; None if the means do not move.

    >>> _drift({"drift": [0.5, -0.2], "season": 0.1}).given
    (0.5, -0.2)
    """
    moves = section.get("drift", 0.0)
    walks = not isinstance(moves, list)
    given = () if walks else tuple(_step("truth.drift", step) for step in moves)
    step, season = _step("truth.drift", moves if walks else 0.0), _step("truth.season", section.get("season", 0.0))
    if step < 0:
        raise InvalidInput("truth.drift", found=step, allowed="a standard deviation of at least 0, or a list of steps")
    length = whole("truth.season_phases", section.get("season_phases", 4), 2, LARGEST_SEED)
    if not (step or any(given) or season):
        return None
    return Drift(step=step, given=given, season=season, season_phases=length)


def _step(key: str, value: Any) -> float:
    """Read a number that says how far something drifts; its absolute value has the same limit as a mean."""
    step = number(key, value)
    if not abs(step) <= LARGEST_SCALE:
        raise InvalidInput(key, found=step, allowed=f"numbers up to {LARGEST_SCALE:g}")
    return step


def _within(instance: Instance, *, stated: bool) -> Instance:
    """The instance, after checking that no gap exceeds `largest_gap`; W-CPE's guarantee relies on this.

    If the study file states no `largest_gap` and a gap exceeds the default, `largest_gap` becomes the range of the
    means: no mix of means can have a larger gap.
    """
    problem = instance.problem
    widest = float(top_gaps(instance.mixed_means, problem.top).max())
    if widest <= problem.largest_gap:
        return instance
    if stated:
        raise InvalidInput(
            "largest_gap",
            found=f"{problem.largest_gap:g} with means that are {widest:g} apart",
            allowed=f"at least {widest:g}",
            hint=f"Leave it out to take the range of the means; {why_largest_gap(widest)}",
        )
    learned = rounded_up(float(np.ptp(instance.means, axis=0).max()))
    return replace(instance, problem=problem.with_(largest_gap=learned))
