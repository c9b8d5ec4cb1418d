"""Further outcomes on pages, in the report and in files: the status of every guardrail, and estimates.

Everything is formatted from the coordinator's findings, outcome by outcome; nothing is estimated or decided here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from parley.dashboard.standing import WIDEST_SHARE
from parley.experiments.report_kit.forest import Harm, forest_chart, margin_bar
from parley.experiments.report_kit.tables import Table
from parley.text.formatting import DASH, csv_text, estimate_text, number, short, unit_of
from parley.text.status import OutcomeStatus
from parley.text.translation import Translatable, gettext, translated

Found = Mapping[str, Any]
# The sign printed beside the status of an arm, so that colour is never the only cue.
SIGNS = {"stopped": "■", "proposed": "▲", "alarm": "▲", "cleared": "✓", "not cleared yet": "●"}
WORDS = {
    "stopped": Translatable("stopped"),
    "proposed": Translatable("stop proposed"),
    "alarm": Translatable("harm proven"),
    "cleared": Translatable("cleared"),
    "not cleared yet": Translatable("not cleared yet"),
}
ENDS = ("estimate", "low", "high")
# Columns of the CSV file.
HEAD = (
    "outcome", "role", "better", "margin", "limit", "delta", "level", "agent", "arm", "status", "in_mix", "count",
    "mean", "mean_low", "mean_high", "to_control", "to_control_low", "to_control_high",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class GuardedCell:
    """A cell of a guardrail's board: the status and interval of an arm in an agent's mix."""

    status: str
    interval: str
    bar: Markup
    early: bool = False  # neither harm nor safety is proven, and the interval is still too wide to mean anything

    @property
    def words(self) -> str:
        """The status in the reader's language."""
        return translated(WORDS[self.status])

    @property
    def sign(self) -> str:
        """The sign printed beside the status."""
        return SIGNS[self.status]


def harm_of(one: Found) -> Harm | None:
    """The bound beyond which an arm does harm, as a guardrail defines it; None if the outcome is not a guardrail."""
    if one["role"] != "guardrail":
        return None
    above = one["better"] == "lower"
    if one["limit"] is not None:
        return Harm(
            bound=one["limit"],
            above=above,
            words=gettext("worse than the limit, %(limit)s", limit=_amount(one, one["limit"], "mean")),
        )
    bound = one["margin"] if above else -one["margin"]
    words = gettext("worse by more than %(margin)s", margin=_amount(one, one["margin"], "to_control"))
    return Harm(bound=bound, above=above, words=words)


def _amount(one: Found, value: float, kind: str) -> str:
    """Format a margin or a limit in the unit of the outcome."""
    unit = unit_of(kind, rates=one["rates"])
    return f"{short(100 * value)} {unit}" if unit else short(value)


def _kind(one: Found) -> str:
    """Which estimate a guardrail limits: `mean`, or `to_control` for the difference from the control's mean."""
    return "mean" if one["limit"] is not None else "to_control"


def asked_outcomes(findings: Found | None) -> list[dict[str, Any]]:
    """The further outcomes in a study's findings, without agents that ask no question; empty without findings."""
    if findings is None:
        return []
    unasked = {agent["agent"] for agent in findings["agents"] if agent["end"] == OutcomeStatus.UNASKED}
    return [
        one | {"agents": [agent for agent in one["agents"] if agent["agent"] not in unasked]}
        for one in findings["outcomes"]
    ]


def guardrail_boards(findings: Found | None) -> list[dict[str, Any]]:
    """One board per guardrail, laid out like the study's board: a row per agent, a column per arm."""
    return [_board(one) for one in asked_outcomes(findings) if one["role"] == "guardrail"]


def _board(one: Found) -> dict[str, Any]:
    harm, kind = harm_of(one), _kind(one)
    assert harm is not None
    known = [arm[kind] for agent in one["agents"] for arm in agent["arms"] if arm[kind] is not None]
    ends = [cell[end] for cell in known for end in ENDS if cell[end] is not None]
    stands, standing = {row["arm"]: row for row in one["arms"]}, [_standing(row) for row in one["arms"]]

    def cell(arm: Found) -> GuardedCell | None:
        """The cell of an arm; None for the control, with which the other arms are compared."""
        if arm["arm"] not in stands:
            return None
        # A stop, or its proposal, concerns the arm for all agents, even if harm is proven in one agent's mix only.
        overall = stands[arm["arm"]]["status"]
        status = overall if overall in ("stopped", "proposed") else arm["status"]
        interval = estimate_text(arm[kind], unit=unit_of(kind, rates=one["rates"]))
        return GuardedCell(
            status=status,
            interval=interval,
            bar=margin_bar(arm[kind] or {}, harm, ends),
            early=status == "not cleared yet" and one["rates"] and _says_nothing(arm[kind], kind),
        )

    return {
        "name": one["name"],
        "harm": harm.words,
        "delta": one["delta"],
        "arms": [arm["arm"] for arm in one["agents"][0]["arms"]] if one["agents"] else [],
        "rows": [(agent["agent"], [cell(arm) for arm in agent["arms"]]) for agent in one["agents"]],
        "stands": standing,
        "summary": standing_words(standing),
    }


def _says_nothing(found: Found | None, kind: str) -> bool:
    """Whether the interval of a share, or of a difference of two shares, is still too wide to mean anything."""
    if found is None or found["low"] is None or found["high"] is None:
        return False
    widest = WIDEST_SHARE if kind == "mean" else 2 * WIDEST_SHARE
    return bool(found["high"] - found["low"] > widest)


def _standing(row: Found) -> dict[str, Any]:
    """The status of an arm over all agents, and the agents in whose mix harm was proven."""
    status = row["status"]
    return {
        "arm": row["arm"],
        "status": status,
        "sign": SIGNS[status],
        "words": translated(WORDS[status]),
        "mixes": list(row["agents"]) if status in ("stopped", "proposed") else [],
    }


def outcome_panels(findings: Found | None) -> list[dict[str, Any]]:
    """One panel per further outcome: its description, the status of its arms, and estimates with charts per agent."""
    return [_panel(one, findings["control"]) for one in asked_outcomes(findings)] if findings else []


def _panel(one: Found, control: str | None) -> dict[str, Any]:
    harm = harm_of(one)
    stands = [_standing(row) for row in one["arms"]]
    gone = {row["arm"] for row in stands if row["status"] == "stopped"}
    compared = any(arm["to_control"] is not None for agent in one["agents"] for arm in agent["arms"])
    return {
        "name": one["name"],
        "summary": standing_words(stands),
        "guardrail": harm is not None,
        "better": one["better"],
        "level": one["level"],
        "delta": one["delta"],
        "harm": "" if harm is None else harm.words,
        "words": one["words"],
        "stands": stands,
        "stopped": [row for row in stands if row["status"] == "stopped"],
        "control": control if compared else None,
        "agents": [_agent(one, agent, control if compared else None, harm, gone) for agent in one["agents"]],
    }


def _agent(one: Found, agent: Found, control: str | None, harm: Harm | None, gone: set[str]) -> dict[str, Any]:
    rates = one["rates"]
    arms = [
        arm | {"dropped_in": int(arm["arm"] in gone), "beside": _beside(arm, one, gone)}
        for arm in map(dict, agent["arms"])
    ]
    kinds: dict[str, str | None] = {"to_control": control} if control else {"mean": None}
    if harm is not None:
        kinds = {_kind(one): control if _kind(one) == "to_control" else None}
    return {
        "agent": agent["agent"],
        "pictures": [
            forest_chart(arms, kind, _label(one, agent, to), to=to, rates=rates, harm=harm)
            for kind, to in kinds.items()
        ],
        "arms": [
            {
                "arm": arm["arm"],
                "status": _arm_status(arm, one, gone),
                "count": arm["count"],
                **{kind: estimate_text(arm[kind], unit=unit_of(kind, rates=rates)) for kind in ("mean", "to_control")},
            }
            for arm in agent["arms"]
        ],
    }


def _arm_status(arm: Found, one: Found, gone: set[str]) -> str:
    """The status of an arm in an agent's mix, in words; empty for the control and for secondary outcomes."""
    if arm["arm"] not in {row["arm"] for row in one["arms"]}:
        return ""
    status = "stopped" if arm["arm"] in gone else arm["status"]
    return translated(WORDS[status])


def _beside(arm: Found, one: Found, gone: set[str]) -> str:
    words = _arm_status(arm, one, gone)
    return f" · {words}" if words else ""


def _label(one: Found, agent: Found, to: str | None) -> str:
    what = gettext("Means") if to is None else gettext("Differences from %(arm)s", arm=to)
    return gettext(
        "%(what)s for %(agent)s (%(outcome)s) with simultaneous intervals; the numbers are below",
        what=what,
        outcome=one["name"],
        agent=agent["agent"],
    )


def outcome_tables(panel: Found, words: Mapping[str, str]) -> list[tuple[str, Table]]:
    """Tables of an outcome's estimates, one per agent, each with the agent's name."""
    control = [gettext("Difference from %(arm)s", arm=panel["control"])] if panel["control"] else []
    head = [
        words["arm"],
        *([gettext("Guardrail")] if panel["guardrail"] else []),
        gettext("Mixed mean"),
        *control,
        words["draws"],
    ]
    return [
        (
            agent["agent"],
            Table.of_text(
                "",
                [name[:1].upper() + name[1:] for name in head],
                [
                    (
                        arm["arm"],
                        *([arm["status"] or DASH] if panel["guardrail"] else []),
                        arm["mean"],
                        *([arm["to_control"]] if panel["control"] else []),
                        number(arm["count"]),
                    )
                    for arm in agent["arms"]
                ],
            ),
        )
        for agent in panel["agents"]
    ]


def standing_words(stands: Sequence[Found]) -> str:
    """Summarize the statuses of all arms in one line, the most serious status first.

    >>> rows = [{"arm": arm, "status": "cleared", "words": "cleared", "mixes": []} for arm in ("A", "B")]
    >>> standing_words([{"arm": "C", "status": "stopped", "words": "stopped", "mixes": ["Lyon"]}, *rows])
    'stopped: C (in the mix of Lyon); cleared: A, B'
    >>> standing_words([{"arm": "C", "status": "stopped", "words": "stopped", "mixes": []}])
    'stopped: C (on average over all mixes)'
    """
    by_status: dict[str, list[str]] = {}
    for row in stands:
        mixes = gettext(" (in the mix of %(agents)s)", agents=", ".join(row["mixes"])) if row["mixes"] else ""
        if not mixes and row["status"] in ("stopped", "proposed"):
            mixes = gettext(" (on average over all mixes)")
        by_status.setdefault(row["words"], []).append(f"{row['arm']}{mixes}")
    order = [translated(words) for words in WORDS.values()]
    return "; ".join(f"{status}: {', '.join(by_status[status])}" for status in order if status in by_status)


def outcomes_csv(outcomes: Sequence[Found]) -> str:
    """Format outcomes as CSV, one line per outcome, agent and arm, in full precision."""

    def lines() -> Any:
        for one in outcomes:
            stands = {row["arm"]: row["status"] for row in one["arms"]}
            for agent in one["agents"]:
                for arm in agent["arms"]:
                    numbers = {
                        f"{kind}{end and f'_{end}'}": (arm[kind] or {}).get(end or "estimate")
                        for kind in ("mean", "to_control")
                        for end in ("", "low", "high")
                    }
                    yield {
                        "outcome": one["name"],
                        **{key: one[key] for key in ("role", "better", "margin", "limit", "delta", "level")},
                        "agent": agent["agent"],
                        "arm": arm["arm"],
                        "status": stands.get(arm["arm"]),
                        "in_mix": arm["status"] if arm["arm"] in stands else None,
                        "count": arm["count"],
                        **numbers,
                    }

    return csv_text(HEAD, lines())
