"""The status of every site: its progress in the phase, whether it is late, and what is known about its question.

The sentences follow from the board and the latest phase's estimates; nothing is decided or estimated here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from parley.coordinator.answers import Awaited, Board, Explained, StudyStatus
from parley.dashboard.charts import progress
from parley.text.formatting import number, real
from parley.text.status import ArmStatus, OutcomeStatus
from parley.text.translation import Translatable, gettext, ngettext, translated

A_DAY = 86_400.0  # seconds
NAMED = 4  # names listed in a sentence, at most
WIDEST_SHARE = 0.4  # width of the widest interval that still says something about a share
OVER = ("finished", "cancelled", "stalled")


@dataclass(frozen=True, kw_only=True)
class SiteStanding:
    """The status of one site, or of a question without draws of its own, as pages print it."""

    name: str
    state: str  # reported, awaited, late, held, frozen, or "" if no report is asked of it
    since: str | None  # the time at which this state began
    known: str  # what is known about its question, as a sentence
    progress: str  # progress in the phase, as text; "" if no draws are asked of it
    picture: Markup | None  # the progress as a chart; None if no draws are asked of it
    spent: int
    late_days: int = 0
    objection: str | None = None
    asks_only: bool = False  # a question without draws of its own


def named(names: Sequence[str], most: int = NAMED) -> str:
    """Join names for a sentence; of a long list, only the first names and the number of the others.

    >>> named(["A", "B"]), named(["A", "B", "C"], most=1)
    ('A, B', 'A and 2 more')
    """
    if len(names) <= most + 1:
        return ", ".join(names)
    return gettext("%(names)s and %(count)s more", names=", ".join(names[:most]), count=number(len(names) - most))


def says_nothing(low: float | None, high: float | None, *, rates: bool, largest_gap: float) -> bool:
    """Whether an interval is still too wide to mean anything.

    For shares: if it is wider than 40 points, or wider than four times the largest possible gap between two arms. For
    other outcomes: if it is at least as wide as that gap.

    >>> says_nothing(0.0, 0.91, rates=True, largest_gap=1.0), says_nothing(0.2, 0.4, rates=True, largest_gap=1.0)
    (True, False)
    >>> says_nothing(96.0, 117.0, rates=False, largest_gap=20.0)
    True
    """
    if low is None or high is None:
        return False
    if rates:
        return high - low > min(WIDEST_SHARE, 4 * largest_gap)
    return high - low >= largest_gap


def site_standings(
    status: StudyStatus, board: Board, case: Explained | None, now: datetime | None = None
) -> list[SiteStanding]:
    """The status of every agent of the board, in order, in the reader's language."""
    now = now or datetime.now(UTC)
    missing = {entry.agent: entry for entry in status.missing}
    reported = {entry.agent: entry.at for entry in status.reported}
    frozen = {entry.agent: entry.at for entry in status.frozen}
    made = []
    for place, name in enumerate(board.agents):
        entry = missing.get(name)
        state, since = "", None
        if name in frozen:
            state, since = "frozen", frozen[name]
        elif entry is not None:
            state, since = "held" if entry.held else "awaited", entry.since
        elif status.stage not in OVER and name in reported:
            state, since = "reported", reported[name]
        planned = board.planned[place] if status.stage not in OVER and name not in frozen else 0
        due = expected(board, place, since, now) if state == "awaited" else None
        words, picture = _progress(entry, planned, name, due, reported=state == "reported")
        late = _late_days(board, place, since, now) if state == "awaited" else 0
        made.append(
            SiteStanding(
                name=name,
                state="late" if late else state,
                since=since,
                known=known_sentence(status, board, case, place),
                progress=words,
                picture=picture,
                spent=board.spent[place],
                late_days=late,
                objection=entry.objection if entry else None,
                asks_only=name in status.settings["asks_only"],
            )
        )
    return made


def expected(board: Board, place: int, since: str | None, now: datetime) -> int | None:
    """How many of this phase's draws should be done by now at the stated rate; None without a rate or draws."""
    if board.rates is None or since is None or not board.planned[place]:
        return None
    return min(int(board.rates[place] * _days(since, now)), board.planned[place])


def _late_days(board: Board, place: int, since: str | None, now: datetime) -> int:
    """How many whole days a report is overdue, given the time that its draws and outcomes take at the stated rate."""
    if board.rates is None or since is None or not board.rates[place]:
        return 0
    takes = board.planned[place] / board.rates[place] + board.delay[place]
    return max(int(_days(since, now) - takes), 0)


def _days(since: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(since)).total_seconds() / A_DAY


def _progress(
    entry: Awaited | None, planned: int, name: str, due: int | None, *, reported: bool
) -> tuple[str, Markup | None]:
    """A site's progress in the phase, as text and as a chart."""
    if not planned:
        return "", None
    if reported:
        words = ngettext("%(num)s draw of this phase reported", "%(num)s draws of this phase reported", planned)
        return words, progress(planned, planned, planned, None, f"{name}: {words}")
    if entry is None or entry.recruited is None:
        words = ngettext("%(num)s draw asked for in this phase", "%(num)s draws asked for in this phase", planned)
        return words, progress(0, 0, planned, due, f"{name}: {words}")
    numbers = {
        "recruited": number(entry.recruited),
        "planned": number(planned),
        "observed": number(entry.observed or 0),
    }
    words = gettext("%(recruited)s of %(planned)s draws begun, %(observed)s observed", **numbers)
    if entry.unmasked:
        words += gettext("; unmasked: %(count)s", count=number(entry.unmasked))
    if due is not None:
        words += gettext("; expected by now: %(due)s", due=number(due))
    return words, progress(entry.observed or 0, entry.recruited, planned, due, f"{name}: {words}")


def known_sentence(status: StudyStatus, board: Board, case: Explained | None, place: int) -> str:
    """Describe in a sentence what is known about an agent's question, without numbers that mean nothing yet.

    For blinded readers, the sentence gives only the number of remaining arms and names none of them.
    """
    end = OutcomeStatus(board.ends[place])
    if end is OutcomeStatus.UNASKED:
        return gettext("It asks no question of its own.")
    if end is OutcomeStatus.LEFT:
        return gettext("It left the study, so it has no answer of its own.")
    if board.blinded or board.statuses is None:
        return _blinded_sentence(board, end, place)
    if board.standing is not None and board.standing.leaders:
        return _playing_sentence(status, board.standing.leaders[place], board.candidates[place])
    of = [ArmStatus(row[place]) for row in board.statuses]
    chosen = [arm for arm, one in zip(board.arms, of, strict=True) if one is ArmStatus.CHOSEN]
    if end is OutcomeStatus.DECIDED and chosen:
        return ngettext("%(arms)s is its best arm.", "%(arms)s are its best arms.", len(chosen), arms=named(chosen))
    tolerance = tolerance_words(status)
    if end is OutcomeStatus.ACCEPTED and chosen:
        return gettext(
            "%(arms)s is its answer: no arm is better by %(tolerance)s or more.",
            arms=named(chosen),
            tolerance=tolerance,
        )
    leader = leading(board, case, place)
    if end in NO_ANSWER:
        words = translated(NO_ANSWER[end])
        return f"{words} {gettext('%(arm)s leads.', arm=named(leader))}" if leader else words
    if end is OutcomeStatus.SETTLED:
        settled = translated(SETTLED)
        return f"{gettext('%(arm)s leads.', arm=named(leader))} {settled}" if leader else settled
    if case is None:
        return gettext("Too early to say: no phase is decided yet.")
    if tolerance and leader:
        return _tolerant_sentence(board, case, of, leader, place, tolerance)
    shown = [
        arm
        for arm, one, scores in zip(board.arms, of, case.score, strict=True)
        if one is ArmStatus.OPEN and arm not in leader and is_full(scores[place], case.line)
    ]
    return _open_sentence(board, of, leader, shown if status.together else [])


SETTLED = Translatable(
    "Settled: there is enough evidence. The answer becomes final when every agent is settled, because all answers are "
    "given together."
)
NO_ANSWER: Mapping[OutcomeStatus, str] = {
    OutcomeStatus.EXHAUSTED: Translatable("No answer: the budget or horizon was reached first."),
    OutcomeStatus.BLOCKED: Translatable("No answer: the missing data can no longer be supplied."),
    OutcomeStatus.CANCELLED: Translatable("No answer: the study was stopped."),
}


def _playing_sentence(status: StudyStatus, arm: str, candidates: int) -> str:
    """The sentence for a study with a horizon, whose guarantee is about regret and not about the best arm."""
    if status.stage in OVER:
        return gettext("%(arm)s looked best at the end.", arm=arm)
    if candidates == 1:
        return gettext("It uses %(arm)s, the only arm left.", arm=arm)
    return gettext("It uses %(arm)s, which looks best so far.", arm=arm)


def _blinded_sentence(board: Board, end: OutcomeStatus, place: int) -> str:
    if end.answered or board.candidates[place] <= board.top:
        return gettext("It has its answer.")
    if end in NO_ANSWER:
        return translated(NO_ANSWER[end])
    if end is OutcomeStatus.SETTLED:
        return translated(SETTLED)
    left, every = number(board.candidates[place]), number(len(board.arms))
    return gettext("%(left)s of %(every)s arms may still be the best.", left=left, every=every)


def _open_sentence(board: Board, of: Sequence[ArmStatus], leader: Sequence[str], shown: Sequence[str]) -> str:
    """The sentence for an open question without a tolerance.

    `shown` are arms with enough evidence against them that stay open until the other agents have enough too.
    """
    out = [arm for arm, one in zip(board.arms, of, strict=True) if one in (ArmStatus.RULED_OUT, ArmStatus.SET_ASIDE)]
    others = [arm for arm, one in zip(board.arms, of, strict=True) if one is ArmStatus.OPEN and arm not in leader]
    if leader and shown:
        possible = [arm for arm in others if arm not in shown]
        parts = [
            gettext("%(arm)s leads; still possible: %(others)s.", arm=named(leader), others=named(possible))
            if possible
            else gettext("%(arm)s leads.", arm=named(leader)),
            gettext("There is enough evidence against %(shown)s.", shown=named(shown)),
        ]
        return " ".join(parts + ([gettext("Ruled out: %(out)s.", out=named(out))] if out else []))
    if not out:
        if not leader:
            return gettext("Too early to say: no arm is ruled out yet.")
        return gettext("Too early to say: %(arm)s leads, but no arm is ruled out yet.", arm=named(leader))
    if not leader:
        return gettext("Ruled out: %(out)s.", out=named(out))
    said = {"arm": named(leader), "others": named(others), "out": named(out)}
    if not others:
        return gettext("%(arm)s leads. Ruled out: %(out)s.", **said)
    return gettext("%(arm)s leads; still possible: %(others)s. Ruled out: %(out)s.", **said)


def _tolerant_sentence(
    board: Board, case: Explained, of: Sequence[ArmStatus], leader: Sequence[str], place: int, tolerance: str
) -> str:
    """The sentence for an open question with a tolerance.

    The question is answered once no other arm is better than the leader by the tolerance or more.
    """
    others = [arm for arm, one in enumerate(of) if one is ArmStatus.OPEN and board.arms[arm] not in leader]
    shown = [board.arms[arm] for arm in others if is_full(case.score[arm][place], case.line)]
    possible = [board.arms[arm] for arm in others if board.arms[arm] not in shown]
    out = [arm for arm, one in zip(board.arms, of, strict=True) if one is ArmStatus.RULED_OUT]
    said = {"arm": named(leader), "others": named(possible), "shown": named(shown), "tolerance": tolerance}
    if possible and not shown and not out:
        return gettext(
            "Too early to say: %(arm)s leads, but any other arm may still be better by %(tolerance)s or more.", **said
        )
    parts = [gettext("%(arm)s leads.", **said)]
    if shown:
        parts.append(gettext("Shown not to be better by %(tolerance)s or more: %(shown)s.", **said))
    if possible:
        parts.append(gettext("May still be better by %(tolerance)s or more: %(others)s.", **said))
    if out:
        parts.append(gettext("Ruled out: %(out)s.", out=named(out)))
    return " ".join(parts)


def is_full(score: float | None, line: float) -> bool:
    """Whether the evidence about an arm reaches the threshold `line` or, with a tolerance, comes as close as it can."""
    return score is not None and score >= line * (1 - 1e-9)


def leading(board: Board, case: Explained | None, place: int) -> list[str]:
    """The candidates with the best estimates, as many as the agent looks for; empty before there are estimates."""
    if case is None or board.statuses is None:
        return []
    found = [
        (mean, arm)
        for arm, row, means in zip(board.arms, board.statuses, case.mixed_means, strict=True)
        if (mean := means[place]) is not None and row[place] in (ArmStatus.OPEN, ArmStatus.CHOSEN)
    ]
    return [arm for _, arm in sorted(found, key=lambda one: -one[0])[: board.top]]


def tolerance_words(status: StudyStatus) -> str:
    """Format the tolerance, in points for shares; "" if there is none."""
    tolerance = float(status.settings["tolerance"])
    if not tolerance:
        return ""
    if status.rates:
        points = 100 * tolerance
        return gettext("%(points)s points", points=real(points, 0 if points == round(points) else 1))
    return f"{tolerance:g}"


def summary(status: StudyStatus, board: Board, sites: Sequence[SiteStanding]) -> list[str]:
    """Summarize the study in a few sentences: its progress, who is late, and how many agents have an answer."""
    said = []
    if status.stage not in OVER:
        counts = {"phase": number(status.phase), "done": number(len(status.reported)), "all": number(status.asked)}
        said.append(gettext("%(done)s of %(all)s reports of phase %(phase)s are in.", **counts))
        if status.missing:
            said.append(gettext("Still awaited: %(names)s.", names=named([entry.agent for entry in status.missing])))
        if late := [site for site in sites if site.late_days]:
            names = [
                ngettext("%(name)s by %(num)s day", "%(name)s by %(num)s days", site.late_days, name=site.name)
                for site in late
            ]
            said.append(gettext("Late: %(names)s.", names=named(names)))
    asking = status.agents - len(status.settings["draws_only"])
    if board.decided_agents == asking:
        said.append(gettext("Every agent has its answer."))
    elif board.decided_agents:
        said.append(
            ngettext(
                "%(num)s of %(all)s agents has its answer.",
                "%(num)s of %(all)s agents have their answer.",
                board.decided_agents,
                all=number(asking),
            )
        )
    elif status.stage in OVER:
        said.append(gettext("No agent has an answer."))
    else:
        said.append(gettext("No agent has its answer yet."))
    settled = board.ends.count(OutcomeStatus.SETTLED)
    if settled and len(board.agents) == status.agents:  # not if the board is one page of many agents
        said.append(
            ngettext(
                "%(num)s of %(all)s agents is settled: its answer becomes final when all are settled.",
                "%(num)s of %(all)s agents are settled: their answers become final when all are settled.",
                settled,
                all=number(asking),
            )
        )
    return said
