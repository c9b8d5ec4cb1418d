"""The form for a new study: which keys of the study file a step asks for, and how typed text becomes a value.

The text of the study file is the only state. Each step displays some keys of the file and writes them back; only the
parser of study files checks them. Keys that no step displays stay unchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parley.errors import InvalidInput
from parley.rewards import KINDS, Gaussian, model_kinds, section_keys
from parley.settings import Key, full_name
from parley.study import REPEATED, SECTIONS, read_toml, toml_text
from parley.text.translation import Translatable, gettext, translated
from parley.weights import EVERY_KIND, WEIGHT_KEYS

MOST_REPEATED = 6  # most outcomes or questions in the form; more can only be written in the file
BLANK = 1  # empty entries offered after the existing ones
# Keys with a list of names, typed one per line; some also take a plain number of unnamed items.
NAMES = ("arms", "agents", "dormant", "weights.labels", "weights.site_of", "weights.stratum_of")
NOT_ASKED = ("weights.file",)  # a browser sends only the study file, not the file that this key names


@dataclass(frozen=True, kw_only=True)
class Step:
    """One page of the form.

    The keys of `first` are always visible. The other keys of its `sections` are hidden until the reader opens the
    further settings. `repeated` names a section that a study file may have several times.
    """

    name: str
    title: str
    lead: str
    first: tuple[str, ...]
    sections: tuple[str, ...] = ()
    repeated: str = ""


STEPS = (
    Step(
        name="question",
        title=Translatable("The question"),
        lead=Translatable("What is compared, and who reads the pages of the study?"),
        first=("name", "audience", "arms", "control"),
    ),
    Step(
        name="sites",
        title=Translatable("Who takes part"),
        lead=Translatable("Every agent makes draws and asks for its own best arm."),
        first=("agents", "sampling.rate", "sampling.round_days"),
        sections=("sampling", "sites"),
    ),
    Step(
        name="weights",
        title=Translatable("Whose results count"),
        lead=Translatable(
            "How much do the results of the other agents count in each agent's question? The picture shows the mix."
        ),
        first=(
            "weights.kind", "weights.alpha", "weights.labels", "weights.shares", "weights.matrix", "weights.features",
            "weights.kernel", "weights.bandwidth", "weights.mix", "weights.reason",
        ),
        sections=("weights",),
        repeated="questions",
    ),
    Step(
        name="outcomes",
        title=Translatable("What is observed"),
        lead=Translatable("Describe a single reward and any other outcomes to watch."),
        first=(
            "noise.kind", "noise.scale", "noise.low", "noise.high", "noise.rate", "noise.inference", "noise.mean",
        ),
        sections=("noise", "covariate"),
        repeated="outcomes",
    ),
    Step(
        name="precision",
        title=Translatable("Certainty and budget"),
        lead=Translatable(
            "How often may an answer be wrong, what is good enough, and when does the study end at the latest?"
        ),
        first=("delta", "tolerance", "max_samples", "max_rounds", "largest_gap"),
        # Every section that no other step has, so that a new section of the study file appears here by itself.
        sections=tuple(
            section
            for section in SECTIONS
            if section not in ("sampling", "sites", "weights", "noise", "covariate", "truth", *REPEATED)
        ),
    ),
)  # fmt: skip
BY_NAME = {step.name: step for step in STEPS}

# key -> label and hint in plain words. Any other key shows its name, and its English meaning from the table of keys.
LABELS: Mapping[str, tuple[str, str]] = {
    "name": (Translatable("Name of the study"), ""),
    "audience": (Translatable("Who reads the pages of the study"), Translatable(
        "Pages and reports use the terms that these readers know."
    )),
    "arms": (
        Translatable("The arms to compare"),
        Translatable("One per line, at least two, or just a number if they need no names."),
    ),
    "control": (
        Translatable("The control, which is used today"),
        Translatable("Optional: the other arms are compared with the control."),
    ),
    "agents": (Translatable("Agents"), Translatable("One per line, or just a number if they need no names.")),
    "sampling.rate": (
        Translatable("Draws a day"),
        Translatable(
            "Optional: one number, or one for each agent, for example 4, 3, 5. Parley then shows which agents are "
            "late."),
    ),
    "sampling.round_days": (
        Translatable("Days between phases"),
        Translatable("Optional: the time to collect the results, decide and start the next phase."),
    ),
    "weights.kind": (Translatable("How to weight the results in an agent's question"), ""),
    "weights.alpha": (
        Translatable("Own share"),
        Translatable(
            "From 0 to 1; the average of all agents gets the rest of the weight. Give one number, or one for each "
            "agent."
        ),
    ),
    "weights.labels": (
        Translatable("The cluster of each agent"),
        Translatable("One per line, in the order of the agents."),
    ),
    "weights.shares": (
        Translatable("The size of each agent’s population"),
        Translatable("In any unit, for example 2.1, 1.2, 1.7."),
    ),
    "weights.matrix": (
        Translatable("Weights or similarities, one for each pair of agents"),
        Translatable("One row per line, with the numbers separated by commas."),
    ),
    "weights.features": (
        Translatable("Features of each agent, as numbers"),
        Translatable("Give one row for each agent instead of a similarity for each pair."),
    ),
    "weights.kernel": (Translatable("How to compute similarity from these numbers"), ""),
    "weights.bandwidth": (Translatable("Distance at which similarity falls to 0.61"), ""),
    "weights.mix": (
        Translatable("Weights of the agent itself, its site, its stratum and everybody"),
        Translatable("Four numbers that sum to 1."),
    ),
    "weights.reason": (
        Translatable("Why you chose these weights"),
        Translatable("The readers of the reports will see this."),
    ),
    "noise.kind": (Translatable("Kind of reward"), ""),
    "noise.scale": (
        Translatable("Standard deviation"),
        Translatable("A number, or the word unknown."),
    ),
    "noise.low": (Translatable("The smallest possible value"), ""),
    "noise.high": (Translatable("The largest possible value"), ""),
    "noise.rate": (
        Translatable("Rough success rate today"),
        Translatable(
            "From 0 to 1. It sets the size of the first phase and the rates that plans simulate; the guarantee does "
            "not depend on it."),
    ),
    "noise.inference": (Translatable("Exact inference or normal approximation"), ""),
    "noise.mean": (Translatable("Rough mean number of events today"), Translatable(
        "Sets the size of the first phase."
    )),
    "delta": (Translatable("Chance of any wrong answer"), Translatable("Between 0 and 1; 0.1 if left out.")),
    "tolerance": (
        Translatable("Tolerance: how far from the best is good enough"),
        Translatable(
            "In units of the reward; for rates, 0.05 means five percentage points. 0 if left out: only the best will "
            "do."
        ),
    ),
    "max_samples": (Translatable("Maximum number of draws"), Translatable(
        "Optional: the study ends at this number, decided or not."
    )),
    "max_rounds": (Translatable("Maximum number of phases"), Translatable("Optional.")),
    "largest_gap": (
        Translatable("The largest possible difference"),
        Translatable("Optional: an upper limit, which sets the size of the first phase."),
    ),
}  # fmt: skip
CHOICES: Mapping[str, Mapping[str, str]] = {
    "audience": {
        "trial": Translatable("a trial team"),
        "experiment": Translatable("an experiment team"),
        "bandit": Translatable("researchers"),
    },
    "weights.kind": {
        "identity": Translatable("every agent by itself"),
        "personalized": Translatable("its own results and the average of all agents"),
        "clusters": Translatable("the average of its cluster"),
        "similarity": Translatable("by similarity"),
        "population": Translatable("one question for everybody, weighted by population"),
        "matrix": Translatable("with weights that I enter"),
        "nested": Translatable("by site and stratum"),
    },
    "weights.kernel": {"rbf": Translatable("by distance"), "cosine": Translatable("by angle")},
    "noise.kind": {kind: Translatable(model.label) for kind, model in KINDS.items() if model.label},
    "noise.inference": {"exact": Translatable("exact"), "normal": Translatable("normal approximation")},
}


@dataclass(frozen=True, kw_only=True)
class Field:
    """One input of a step: its key, its label and hint, and its value as text."""

    place: str  # the key's full name, in the form and in errors
    label: str
    hint: str
    value: str
    choices: Sequence[tuple[str, str]] = ()
    lines: int = 0  # height of an input for several lines; 0 for a single line
    own_words: bool = True  # False if label and hint come from the study file's table, which is in English
    wrong: bool = False


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The inputs of a step, filled from a study file."""

    step: Step
    first: Sequence[Field]
    further: Sequence[Field]
    repeated: Sequence[Sequence[Field]] = field(default=())


def shown_step(document: Mapping[str, Any], step: Step, wrong: str = "") -> Shown:
    """The inputs of a step, filled from a document; `wrong` is the key that an error is about."""
    rows = step_keys(document, step)
    made = {place: _field(place, row, _value(document, place), wrong) for place, row in rows.items()}
    first = [made[place] for place in step.first if place in made]
    further = [one for place, one in made.items() if place not in step.first]
    return Shown(step=step, first=first, further=further, repeated=_repeated(document, step, wrong))


def step_keys(document: Mapping[str, Any], step: Step) -> dict[str, Key]:
    """The keys that a step asks for, in order; for weights and rewards, only the keys of the chosen kind."""
    elsewhere = {place for other in STEPS if other is not step for place in other.first}
    places = list(step.first)
    for section in step.sections:
        names = (full_name(section, key) for key in _of_kind(section, _section(document, section)))
        places += [name for name in names if name not in places and name not in elsewhere]
    if "weights" in step.sections:
        kind = _section(document, "weights").get("kind", "identity")
        known = (*WEIGHT_KEYS.get(kind, ()), *EVERY_KIND) if isinstance(kind, str) else EVERY_KIND
        further = ("weights.scenarios",) if "scenarios" in _section(document, "weights") else ()
        places = [place for place in places if place.partition(".")[2] in known or place in further]
    if "noise" in step.sections:
        kept = _of_kind("noise", _section(document, "noise"))
        places = [place for place in places if not place.startswith("noise.") or place.partition(".")[2] in kept]
    return {place: _row(place) for place in places if place not in NOT_ASKED}


def _of_kind(section: str, given: Mapping[str, Any]) -> dict[str, Key]:
    """The keys of a section; for rewards, only the keys of the chosen kind."""
    if section != "noise":
        return dict(SECTIONS[section])
    known, kind = section_keys(given), given.get("kind") or Gaussian.kind
    if isinstance(kind, str) and kind not in KINDS and kind in model_kinds():
        return known  # another package's model: these are its own keys
    own = KINDS[kind].keys if isinstance(kind, str) and kind in KINDS else {}
    return {key: row for key, row in known.items() if key == "kind" or key in own}


def _row(place: str) -> Key:
    section, _, key = place.rpartition(".")
    found = SECTIONS[section].get(key)
    return found if found is not None else section_keys({})[key]


def _section(document: Mapping[str, Any], section: str) -> Mapping[str, Any]:
    found = document.get(section, {}) if section else document
    return found if isinstance(found, Mapping) else {}


def _value(document: Mapping[str, Any], place: str) -> Any:
    section, _, key = place.rpartition(".")
    return _section(document, section).get(key)


def _field(place: str, row: Key, value: Any, wrong: str, name: str = "") -> Field:
    known = LABELS.get(place)
    meaning, default = row.plain
    label, hint = (translated(words) for words in known) if known else (place, meaning)
    if known is None and default and default != "required":
        hint = f"{hint}. {gettext('If left out:')} {default}"
    words = CHOICES.get(place, {})
    options = row.limits.get("enum", list(words)) if bool not in row.kinds else ["true", "false"]
    lists = place in NAMES or place in ("weights.matrix", "weights.features")
    return Field(
        place=name or place,
        label=label,
        hint=hint,
        value=shown_value(value),
        choices=[(option, translated(words.get(option, option))) for option in options],
        lines=5 if lists else 0,
        own_words=known is not None,
        wrong=wrong == (name or place),
    )


def _repeated(document: Mapping[str, Any], step: Step, wrong: str) -> list[list[Field]]:
    """The inputs of each repeated [[section]] in a document, and of an empty section to add."""
    if not step.repeated:
        return []
    given = _entries(document, step.repeated)
    made = []
    for place in range(min(len(given) + BLANK, MOST_REPEATED)):
        entry = given[place] if place < len(given) else {}
        rows = dict(SECTIONS[step.repeated])
        if step.repeated == "outcomes":
            rows |= {key: row for key, row in _of_kind("noise", entry).items() if key not in rows and entry}
        names = {key: f"{step.repeated}.{place}.{key}" for key in rows}
        made.append(
            [_field(f"{step.repeated}.{key}", row, entry.get(key), wrong, names[key]) for key, row in rows.items()]
        )
    return made


def _entries(document: Mapping[str, Any], section: str) -> list[Mapping[str, Any]]:
    found = document.get(section)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def applied(text: str, step: Step, form: Mapping[str, str]) -> str:
    """Write what was typed in a step into the study file; an empty field removes its key.

    >>> print(applied('name = "x"', BY_NAME["sites"], {"agents": "Paris\\nLyon", "sampling.rate": "4, 3"}))
    name = "x"
    agents = ["Paris", "Lyon"]
    <BLANKLINE>
    [sampling]
    rate = [4, 3]
    <BLANKLINE>
    """
    document = read_toml(text)
    before = {place: _value(document, place) for place in step_keys(document, step)}
    for place, value in before.items():
        if place in form:
            _put(document, place, _row(place), value, form[place])
    # If the step chose another kind of weights or rewards, drop the keys of the previous kind: they would be refused.
    after = step_keys(document, step)
    for section, _, key in (place.rpartition(".") for place in before.keys() - after.keys()):
        document.get(section, {}).pop(key, None)
    if step.repeated:
        _put_entries(document, step.repeated, form)
    return toml_text(document)


def _put(document: dict[str, Any], place: str, row: Key, value: Any, typed: str) -> None:
    section, _, key = place.rpartition(".")
    if typed.replace("\r", "").strip() == shown_value(value).strip():
        return  # unchanged: keep the file's own value and type
    inner = document if not section else document.setdefault(section, {})
    if not isinstance(inner, dict):
        return  # not a section: the parser of study files will report it
    inner.pop(key, None)
    if typed.strip():
        inner[key] = typed_value(row, typed, names=place in NAMES)
    elif section and not inner:
        del document[section]


def _put_entries(document: dict[str, Any], section: str, form: Mapping[str, str]) -> None:
    entries = [dict(one) for one in _entries(document, section)]
    for place in range(MOST_REPEATED):
        names = {name.rpartition(".")[2]: text for name, text in form.items() if name.startswith(f"{section}.{place}.")}
        if not names:
            continue
        entry = entries[place] if place < len(entries) else {}
        for key, text in names.items():
            row = SECTIONS[section].get(key) or section_keys({}).get(key)
            if row is None or text.replace("\r", "").strip() == shown_value(entry.get(key)).strip():
                continue
            entry.pop(key, None)
            if text.strip():
                entry[key] = typed_value(row, text)
        if place >= len(entries):
            entries.append(entry)
    # Emptying all fields of an entry removes it.
    kept = [one for one in entries if one]
    if kept:
        document[section] = kept
    else:
        document.pop(section, None)


def shown_value(value: Any) -> str:
    """Format a value of the study file for an input: names and rows one per line, numbers separated by commas.

    >>> shown_value(["Paris", "Lyon"]), shown_value([[1.0, 0.5], [0.5, 1.0]]), shown_value([4, 3]), shown_value(None)
    ('Paris\\nLyon', '1.0, 0.5\\n0.5, 1.0', '4, 3', '')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value:
        if all(isinstance(one, str) and one.strip() == one and "\n" not in one for one in value):
            return "\n".join(value)
        if all(isinstance(one, list) for one in value):
            return "\n".join(shown_value(one) for one in value)
        if not any(isinstance(one, (list, dict, str)) for one in value):
            return ", ".join(map(shown_value, value))
    return toml_text({"x": value}, inline=True).partition("= ")[2].strip()


def typed_value(row: Key, text: str, *, names: bool = False) -> Any:
    """Parse typed text as a value for a key; text that does not fit the key is returned unchanged, and refused later.

    >>> numbers = Key(kinds=(int, float, list), meaning="")
    >>> [typed_value(numbers, text) for text in ("4", "4, 3", "1, 2\\n3, 4", "often")]
    [4, [4, 3], [[1, 2], [3, 4]], 'often']
    >>> typed_value(Key(kinds=(int, list), meaning=""), "1\\n2", names=True)
    ['1', '2']
    """
    text = text.replace("\r", "").strip()
    if row.kinds == (str,):
        return text
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if names:
        return int(text) if int in row.kinds and text.isascii() and text.isdigit() else lines
    if list in row.kinds and len(lines) > 1:
        rows = [_parsed(f"[{line.removesuffix(',')}]") for line in lines]
        if all(isinstance(one, list) for one in rows):
            return [one[0] for one in rows] if all(len(one) == 1 for one in rows) else rows
    # First as a TOML value, then as the items of a TOML list.
    for attempt in (text, f"[{text}]") if list in row.kinds else (text,):
        if (found := _parsed(attempt)) is not None:
            return [found] if row.kinds == (list,) and not isinstance(found, list) else found
    return text if str in row.kinds else lines if list in row.kinds and len(lines) > 1 else text


def _parsed(text: str) -> Any:
    try:
        found = read_toml(f"x = {text}")
    except InvalidInput:
        return None
    # Typed text with a line break could define further keys.
    return found["x"] if list(found) == ["x"] else None


def step_of(key: str) -> int:
    """Index of the step that asks for the key of an error; `len(STEPS)`, which is the review, if no step does.

    >>> step_of("arms"), step_of("horizon"), step_of("outcomes[0].margin"), step_of("TOML") == len(STEPS)
    (0, 4, 3, True)
    """
    head = key.removeprefix("key in [").partition(".")[0].partition("[")[0].rstrip("]")
    section = head if head in SECTIONS else "" if head in SECTIONS[""] else None
    for place, step in enumerate(STEPS):
        if key in step.first or (section and section == step.repeated):
            return place
    return next((place for place, step in enumerate(STEPS) if section in step.sections), len(STEPS))
