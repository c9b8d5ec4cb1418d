"""The final report of a study, for printing or as Markdown: the same content in two renderings.

The text is in `templates/report.md`, with the words of the study's audience; the tables and charts are made here.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from markupsafe import Markup
from starlette.responses import Response

from parley.coordinator.answers import Conduct, DecidedPhase, Flow
from parley.coordinator.http.routes import studies
from parley.coordinator.http.routes.administration import list_corrections, verify_study
from parley.dashboard.charts import flow_chart
from parley.dashboard.outcomes import outcome_panels, outcome_tables
from parley.dashboard.pages.answer import (
    answer_of,
    attached,
    certificate_of,
    found_so_far,
    map_of,
    other_weights_of,
    reread_of,
    with_panels,
)
from parley.dashboard.pages.study import heading
from parley.dashboard.render import error_bound, render_part, render_text, stamp
from parley.dashboard.session import Page, page, spoken_language
from parley.experiments.report_kit.prose import (
    Block,
    Blocks,
    as_text,
    html_sections,
    markdown_text,
    token,
    words_of_reader,
)
from parley.experiments.report_kit.tables import Table
from parley.protocol import StudyMessage
from parley.protocol.verify import Signature
from parley.text.formatting import DASH, answer_text, gap, number, real, status_text
from parley.text.status import OutcomeStatus
from parley.text.translation import Translatable, gettext, localized, ngettext, reading, translated
from parley.weight_map import WeightMap

WHOLE = 40  # up to this many agents, a report lists all of them arm by arm
BESIDE = 8  # columns of numbers that fit on a sheet of paper
PHASES = 200  # latest phases whose dates the report lists
MOST_ACTS = 1_000  # as many as the API returns
# Columns of the flow's tables.
FLOW = {
    "planned": Translatable("planned"),
    "assigned": Translatable("assigned"),
    "missing": Translatable("missing"),
    "undecided": Translatable("not decided"),
    "counted": Translatable("counted"),
    "corrected": Translatable("corrected"),
}
# Further columns of the flow by agent, each printed only if it counts any draws.
BESIDE_FLOW = {
    "between": Translatable("between phases"),
    "ahead": Translatable("for a later phase"),
    "unmasked": Translatable("unmasked"),
}
# Words in the API's answers: whether an answer would change, a guardrail's verdict, and robustness to other weights.
CHANGES = {"no": Translatable("no"), "yes": Translatable("yes"), "undecided": Translatable("undecided")}
VERDICTS = {
    "alarm": Translatable("alarm"),
    "cleared": Translatable("cleared"),
    "not cleared yet": Translatable("not cleared yet"),
}
STANDINGS = {"holds": Translatable("holds"), "proven": Translatable("proven"), "leads": Translatable("leads")}
# Rows of the certificate's table for keys that only some certificates have.
PLANNED = {"planned_looks": Translatable("planned looks"), "largest_size": Translatable("largest size")}

Content = Callable[[], tuple[str, Blocks]]


async def _gathered(shown: Page) -> tuple[dict[str, Any], Content]:
    """Fetch the data of the report. Returns the page's heading, and a slow function that builds text and blocks."""
    head, some = await heading(shown), {"first": 0, "columns": WHOLE}
    verification = await shown.call(verify_study)
    certificate = await certificate_of(shown)
    conduct = _of_sites(await shown.call(studies.get_conduct, some), head["status"].settings["asks_only"])
    found = await found_so_far(shown, 0, WHOLE)
    sensitivity = await shown.call(studies.get_sensitivity, some) if found else None
    corrected = certificate or (await shown.call(list_corrections)).to_json()
    # Only the numbers of the whole study are needed from board and history, so one agent's column suffices.
    board = await shown.call(studies.get_board, {"columns": 1})
    before = max(board.phases - PHASES, 0)
    dated = await shown.call(studies.get_history, {"after": before, "limit": PHASES, "columns": 1, "explain": False})
    document = await shown.call(studies.get_document)

    def made() -> tuple[str, Blocks]:
        status = head["status"]
        mute = status.settings["draws_only"]
        asking = [place for place, name in enumerate(status.agent_names) if name not in mute]
        known = {
            **head,
            "certificate": certificate,
            "settings": status.settings,
            "answers": [answer_of(certificate, agent, by_arm=status.agents <= WHOLE) for agent in asking]
            if certificate
            else [],
            "map_chart": map_of(certificate),
            "found": with_panels(found, status.settings["tolerance"]),
            "outcomes": outcome_panels(found),
            "reread": [
                reread_of(corrected, agent) for agent in asking[: len(conduct.agents)] if corrected.get("corrections")
            ],
            "corrected": corrected,
            "verification": verification,
            "w": words_of_reader(),
            **other_weights_of(sensitivity),
        }
        blocks = _blocks(known, conduct, dated.phases, StudyMessage.read(document))
        several = {name: [place for one, place in blocks if one == name] for name in ("weights", "matrix")}
        text = render_text(
            "report.md",
            **known,
            **several,
            block=token,
            size=_size(status, board.phases),
            answered=any(one["answered"] for one in known["answers"]),
            evidence=[one["agent"] for one in known["answers"] if one["cells"]],
            set_aside=render_part("macros.html", "set_aside", **known).striptags(),
            money="" if board.money is None else number(board.money),
            phases_left_out=before,
            conduct=conduct,
            acts_left_out=len(conduct.acts) if len(conduct.acts) == MOST_ACTS else 0,
        )
        return text, blocks

    return head, made


async def report(shown: Page) -> Response:
    """The printable report, with a verification of the study made at this moment."""
    head, made = await _gathered(shown)
    return await shown.show("report.html", **head, made=lambda: {"sections": html_sections(*made())})


async def report_markdown(shown: Page) -> Response:
    """Download the report as Markdown, without charts."""
    head, made = await _gathered(shown)

    def drawn() -> bytes:
        with reading(head["audience"], spoken_language(shown.request)):
            title = gettext("%(study)s: report", study=as_text(head["status"].name))
            return markdown_text(title, *made()).encode()

    return attached(shown, await shown.draw(drawn), "text/markdown; charset=utf-8", "report.md")


def _of_sites(conduct: Conduct, questions: Collection[str]) -> Conduct:
    """Restrict the conduct of a study to agents that draw, without its further `questions`, which have no draws."""
    if not questions:
        return conduct
    sites = [place for place, name in enumerate(conduct.agents) if name not in questions]
    flow = {key: [[row[place] for place in sites] for row in rows] for key, rows in conduct.flow.to_json().items()}
    return msgspec.structs.replace(
        conduct,
        agents=[conduct.agents[place] for place in sites],
        agent_count=conduct.agent_count - len(questions),
        **{name: [getattr(conduct, name)[place] for place in sites] for name in ("outside", *BESIDE_FLOW)},
        flow=Flow(**flow),
    )


def _size(status: Any, phases: int) -> str:
    asked = len(status.settings["asks_only"])
    agents = ngettext("%(num)s agent", "%(num)s agents", status.agents - asked)
    further = ngettext("%(num)s further question", "%(num)s further questions", asked)
    agents += f", {further}" if asked else ""
    arms = ngettext("%(num)s arm", "%(num)s arms", status.arms)
    samples = ngettext("%(num)s sample", "%(num)s samples", status.samples)
    return ", ".join([agents, arms, samples, ngettext("%(num)s phase", "%(num)s phases", phases)])


def _blocks(known: Mapping[str, Any], conduct: Conduct, phases: Sequence[DecidedPhase], study: StudyMessage) -> Blocks:
    certificate, found, w = known["certificate"], known["found"], known["w"]
    proof = render_part("macros.html", "verified", known["verification"])
    single: dict[str, Block] = {
        "verified": (proof, _plain(proof)),
        "design": _design(known, study),
        "dates": _dates(known["status"], conduct, phases, w),
        "flow": _flow_figure(conduct),
        "flow_arms": _table(
            gettext("By arm"),
            (w["arm"], *map(translated, FLOW.values())),
            _totals(conduct.arms, conduct.by_arm.to_json()),
        ),
        "flow_agents": _flow_agents(conduct, w),
        "acts": _acts(conduct),
        "signatures": _signatures(known["verification"].signatures),
    }
    if certificate:
        single |= {"answers": _answers_table(known), "certificate": _certificate(known)}
    if found:
        words = render_part("estimates.html", "estimates_words", found, certificate=certificate)
        tables = [f"### {_led(one)}\n\n{_estimates(one, found, w).markdown(as_text)}" for one in found["panels"]]
        page = render_part("estimates.html", "estimates", found, len(found["panels"]), certificate=certificate)
        single["estimates"] = page, "\n\n".join([_plain(words), *tables])
    if known["outcomes"]:
        page = render_part("outcomes.html", "outcomes", known["outcomes"], len(found["panels"]))
        single["outcomes"] = page, _outcomes(known["outcomes"], w)
    if sensitivity := known["sensitivity"]:
        words = render_part("weights.html", "other_weights_words", sensitivity)
        page = render_part("weights.html", "other_weights", sensitivity, known["standings"])
        single["other_weights"] = page, f"{_plain(words)}\n\n{_other_weights(sensitivity, w).markdown(as_text)}"
    if known["reread"]:
        page = render_part("macros.html", "corrections", known["corrected"], known["reread"], False, **known)
        # Paper cannot unfold anything. `replace` of Markup would escape its argument, so a plain string is changed.
        opened = Markup(str(page).replace("<details>", "<details open>"))
        single["corrections"] = opened, _corrections(known)
    blocks: Blocks = {(name, 0): block for name, block in single.items()}
    weights = [[localized(f"{value:.3g}") for value in row] for row in study.problem.mix[:WHOLE, :WHOLE].tolist()]
    some = _matrix(w["agent"], study.problem.sites[:WHOLE], study.problem.askers[:WHOLE], weights)
    blocks |= {("weights", place): one for place, one in enumerate(some)}
    if len(conduct.agents) > 1:
        matrix = _matrix(w["agent"], conduct.agents, conduct.arms, _counted(conduct))
        blocks |= {("matrix", place): one for place, one in enumerate(matrix)}
    if found := certificate and certificate["map"]:
        blocks["map", 0] = (
            known["map_chart"],
            "\n".join(
                f"- {as_text(one['agent'])}: {as_text(translated(WeightMap.from_json(one).words))}" for one in found
            ),
        )
    cases = (one for one in known["answers"] if one["cells"])
    blocks |= {("evidence", place): _evidence(one, known) for place, one in enumerate(cases)}
    return blocks


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table.of_text(title, [name[:1].upper() + name[1:] for name in head], rows)


def _plain(page: Markup) -> str:
    """Convert the paragraphs of a part of a page to plain text."""
    return "\n\n".join(as_text(Markup(part).striptags()) for part in re.findall(r"<p\b.*?</p>", page, re.DOTALL))


def _matrix(name: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[Table]:
    """Split a matrix into tables that are narrow enough for paper."""
    for first in range(0, len(columns), BESIDE):
        some = slice(first, first + BESIDE)
        lines = [(row, *line[some]) for row, line in zip(rows, cells, strict=True)]
        yield Table.of_text(f"{columns[first]} …", (name.capitalize(), *columns[some]), lines)


def _design(known: Mapping[str, Any], study: StudyMessage) -> Table:
    status, w = known["status"], known["w"]
    noise = ", ".join(f"{key} {value}" for key, value in study.noise.items())
    options = ", ".join(f"{key} {value}" for key, value in study.options.items())
    rows = [
        (w["agents"], ", ".join(study.problem.sites)),
        (w["arms"], ", ".join(status.arm_names)),
        (w["rewards"], noise),
        (gettext("policy"), f"{status.policy}{f' ({options})' if options else ''}"),
        (gettext("guarantee"), translated(status.guarantee)),
        *([(gettext("looks and size"), translated(status.extent))] if status.extent else []),
        *((key, translated(words)) for key, words in status.descriptions.items() if key != "audience"),
        *(
            (
                gettext("opened") if one.open else gettext("withdrawn"),
                gettext(
                    "%(arm)s, in phase %(phase)s: %(reason)s",
                    arm=one.arm,
                    phase=one.phase,
                    reason=translated(one.reason),
                ),
            )
            for one in status.changed_arms
        ),
        (gettext("digest of the study"), status.digest),
    ]
    return _table(gettext("Design"), (gettext("What"), gettext("As stated in the study")), rows)


def _dates(status: Any, conduct: Conduct, phases: Sequence[DecidedPhase], w: Mapping[str, str]) -> Table:
    ended = f"{stamp(conduct.ended_at)}, {_ended(status.end)}" if conduct.ended_at else gettext("still running")
    begun = gettext("%(at)s, created and launched", at=stamp(status.created_at))
    rows = [(gettext("the study"), begun, ended, number(status.samples))]
    rows += [
        (
            gettext("phase %(phase)s", phase=one.phase),
            gettext("%(at)s, planned", at=stamp(one.opened_at)),
            gettext("%(at)s, decided", at=stamp(one.closed_at)),
            number(one.samples),
        )
        for one in phases
    ]
    head = (gettext("What"), gettext("Started"), gettext("Decided or ended on"), w["draws"])
    return _table(gettext("Dates"), head, rows)


def _ended(end: str) -> str:
    return translated(OutcomeStatus(end).description)


def _row(flow: dict[str, int]) -> list[str]:
    assigned = flow["counted"] + flow["undecided"] + flow["missing"]
    return [number((flow | {"assigned": assigned})[name]) for name in FLOW]


def _totals(names: Sequence[str], flow: Mapping[str, Sequence[int]]) -> list[tuple[str, ...]]:
    """One row of draws per name, and a last row with their totals."""
    each = [{key: values[place] for key, values in flow.items()} for place in range(len(names))]
    rows = [(name, *_row(one)) for name, one in zip(names, each, strict=True)]
    return [*rows, (gettext("all"), *_row({key: sum(values) for key, values in flow.items()}))]


def _flow_agents(conduct: Conduct, w: Mapping[str, str]) -> Table:
    columns = {key: [sum(column) for column in zip(*rows, strict=True)] for key, rows in conduct.flow.to_json().items()}
    rows = _totals(conduct.agents, columns)
    found = {key: name for key, name in BESIDE_FLOW.items() if _in_all(conduct, key)}
    beside = {"outside": Translatable("outside")} | found
    more = [[*map(number, getattr(conduct, key)), number(_in_all(conduct, key))] for key in beside]
    rows = [(*row, *cells) for row, *cells in zip(rows, *more, strict=True)]
    # If some agents are not listed, the totals would leave them out.
    rows = rows if len(conduct.agents) == conduct.agent_count else rows[:-1]
    names = [*map(translated, FLOW.values()), *map(translated, beside.values())]
    return _table(gettext("By agent"), (w["agent"], *names), rows)


def _in_all(conduct: Conduct, key: str) -> int:
    return int(getattr(conduct, f"{key}_in_all"))


def _counted(conduct: Conduct) -> list[list[str]]:
    """Format the counted draws, `[agent][arm]`, each followed by the number of missing draws in brackets."""
    cells = zip(conduct.flow.counted, conduct.flow.missing, strict=True)
    by_arm = [
        [f"{number(count)} ({number(gone)})" if gone else number(count) for count, gone in zip(*rows, strict=True)]
        for rows in cells
    ]
    return [list(row) for row in zip(*by_arm, strict=True)]


def _flow_figure(conduct: Conduct) -> Markup:
    """Draw the flow from planned draws to counted draws, and then the draws of each arm."""
    flow = {key: sum(values) for key, values in conduct.by_arm.to_json().items()}
    planned, assigned, missing, undecided, counted, corrected = _row(flow)
    short = flow["planned"] - flow["counted"] - flow["undecided"] - flow["missing"]
    lost = [gettext("missing: %(count)s", count=missing)]
    if flow["undecided"]:
        lost.append(gettext("in a phase that is not decided: %(count)s", count=undecided))
    others = [gettext("not assigned or not reported: %(count)s", count=number(short))] if short > 0 else []
    if conduct.outside_in_all:
        others.append(gettext("outside the study: %(count)s", count=number(conduct.outside_in_all)))
    if conduct.voided_in_all:
        others.append(gettext("voided: %(count)s", count=number(conduct.voided_in_all)))
    if conduct.ahead_in_all:
        others.append(gettext("for a phase that has not begun: %(count)s", count=number(conduct.ahead_in_all)))
    later = []
    if conduct.between_in_all:
        later.append(gettext("of these, between phases: %(count)s", count=number(conduct.between_in_all)))
    if flow["corrected"]:
        later.append(gettext("corrected after the decision: %(count)s", count=corrected))
    trunk = [
        ([gettext("planned draws: %(count)s", count=planned)], others),
        ([gettext("assigned: %(count)s", count=assigned)], lost),
        ([gettext("counted: %(count)s", count=counted)], later),
    ]
    leaves = [
        [
            name,
            gettext("assigned: %(count)s", count=row[1]),
            gettext("missing: %(count)s", count=row[2]),
            gettext("counted: %(count)s", count=row[4]),
        ]
        for name, *row in _totals(conduct.arms, conduct.by_arm.to_json())[:-1]
    ]
    return flow_chart(
        trunk, leaves, gettext("The flow from the plan to the answer; the numbers are in the tables below")
    )


def _acts(conduct: Conduct) -> Table:
    rows = [
        (number(one.sequence), stamp(one.at), gettext(one.kind.replace("-", " ")), one.by, translated(one.words))
        for one in conduct.acts
        if one.kind != "signed"
    ]
    head = (gettext("Record"), gettext("When"), gettext("What"), gettext("By"), gettext("Statement and reason"))
    return _table(gettext("Who decided what"), head, rows)


def _signatures(found: Sequence[Signature]) -> Table:
    rows = [(one.principal, one.name, one.meaning, stamp(one.at), number(one.sequence)) for one in found]
    head = (gettext("Signed by"), gettext("Name as typed"), gettext("Meaning"), gettext("When"), gettext("Record"))
    return _table(gettext("Signatures"), head, rows)


def _proven(bound: float | None, known: Mapping[str, Any]) -> str:
    playing = known["settings"]["horizon"] is not None  # with a horizon, the guarantee is about regret
    return DASH if playing and bound is not None and bound < 0.0005 else gap(bound)


def _answers_table(known: Mapping[str, Any]) -> Table:
    ends = bool(known["certificate"]["ends"])
    head = (
        known["w"]["agent"],
        gettext("Best") if known["certificate"]["complete"] else gettext("Best, or candidates"),
    )
    rows = [
        (one["agent"], ", ".join(one["arms"]), *([_ended(one["end"])] if ends else []), _proven(one["margin"], known))
        for one in known["answers"]
    ]
    columns = (*head, *([gettext("End")] if ends else []), gettext("Ahead by at least"))
    return _table(gettext("The answer"), columns, rows)


def _led(panel: Mapping[str, Any]) -> str:
    found = {"agent": as_text(panel["agent"]), "arm": as_text(panel["leader"]), "end": translated(panel["end"])}
    if panel["answered"]:
        return gettext("%(agent)s: %(arm)s leads (%(end)s)", **found)
    return gettext("%(agent)s: no answer; %(arm)s leads (%(end)s)", **found)


def _estimates(panel: Mapping[str, Any], found: Mapping[str, Any], w: Mapping[str, str]) -> Table:
    kinds = {"mean": gettext("Mixed mean"), "to_leader": gettext("Difference from %(arm)s", arm=panel["leader"])}
    kinds |= {"to_control": gettext("Difference from %(arm)s", arm=found["control"])} if found["control"] else {}
    rows = [
        (one["arm"], translated(one["status"]), *(one[kind]["joint"] for kind in kinds), number(one["draws"]))
        for one in panel["arms"]
    ]
    return _table("", (w["arm"], gettext("Status"), *kinds.values(), w["draws"]), rows)


def _outcomes(panels: Sequence[Mapping[str, Any]], w: Mapping[str, str]) -> str:
    parts = []
    for panel in panels:
        kind = gettext("guardrail") if panel["guardrail"] else gettext("secondary")
        words = _plain(render_part("outcomes.html", "outcome_words", panel))
        tables = [f"{as_text(agent)}\n\n{table.markdown(as_text)}" for agent, table in outcome_tables(panel, w)]
        parts += [f"### {as_text(panel['name'])} ({kind})", words, *tables]
    return "\n\n".join(parts)


def _other_weights(found: Mapping[str, Any], w: Mapping[str, str]) -> Table:
    def held(one: Mapping[str, Any]) -> str:
        if one["low"] is None:
            return DASH
        ends = {end: localized(f"{one[end]:g}") for end in ("low", "high")}
        return gettext("%(low)s to %(high)s", **ends)

    steps = [localized(f"{step['value']:g}") for step in found["agents"][0]["steps"]]
    rows = [
        (
            one["agent"],
            answer_text(one),
            held(one),
            *(
                ", ".join(step["leaders"]) if step["standing"] == "other" else translated(STANDINGS[step["standing"]])
                for step in one["steps"]
            ),
        )
        for one in found["agents"]
    ]
    return _table("", (w["agent"], gettext("Answer"), gettext("Holds"), *steps), rows)


def _evidence(answer: Mapping[str, Any], known: Mapping[str, Any]) -> Table:
    w = known["w"]
    worse, evidence = gettext("Worse by at least"), gettext("Evidence")
    head = (w["arm"], gettext("Status"), gettext("Mixed mean"), worse, evidence, w["draws"])
    rows = [
        (
            cell["arm"],
            translated(status_text(cell)),
            real(cell["mixed_mean"]),
            _proven(cell["gap_at_least"], known),
            real(None if cell["status"] == "closed" else cell["score"], 2),
            number(cell["draws"]),
        )
        for cell in answer["cells"]
    ]
    return _table(gettext("Arms of %(agent)s", agent=answer["agent"]), head, rows)


def _corrections(known: Mapping[str, Any]) -> str:
    corrected, agent = known["corrected"], known["w"]["agent"]
    rows = [
        (one["agent"], str(one["phase"]), number(one["sequence"]), one["reason"]) for one in corrected["corrections"]
    ]
    reports = _table("", (agent, gettext("Phase"), gettext("Record"), gettext("Reason")), rows)
    read = [(one["agent"], translated(CHANGES[one["would_change"]]), ", ".join(one["arms"])) for one in known["reread"]]
    anew = _table("", (agent, gettext("Would the answer change?"), gettext("Candidates with the corrections")), read)
    meaning = gettext("Below is %(meaning)s.", meaning=translated(corrected["with_corrections"]["meaning"]))
    shown = f"{reports.markdown(as_text)}\n\n{meaning}\n\n{anew.markdown(as_text)}"
    if not (other := corrected["with_corrections"].get("guardrails")):
        return shown
    head = (
        gettext("Guardrail"), known["w"]["arm"], gettext("With the original numbers"), gettext("With the corrections")
    )  # fmt: skip
    rows = [
        (one["guardrail"], one["arm"], *(translated(VERDICTS[one[key]]) for key in ("verdict", "with_corrections")))
        for one in other
    ]
    return f"{shown}\n\n{_table('', head, rows).markdown(as_text)}"


def _certificate(known: Mapping[str, Any]) -> Table:
    certificate, status = known["certificate"], known["status"]
    anew = "; " + gettext("these numbers are for the changed question") if certificate["created"] else ""
    rows = [
        (gettext("certificate"), known["verification"].certificate or DASH),
        (gettext("study"), certificate["problem"]),
        (gettext("data"), certificate["data"]),
        (
            gettext("last log record"),
            gettext(
                "record %(sequence)s, %(head)s", sequence=number(certificate["sequence"]), head=certificate["head"]
            ),
        ),
        (gettext("policy"), f"{certificate['policy']}, Parley {certificate['version']}"),
        (gettext("guarantee under drift"), translated(certificate["drift"])),
        *((translated(name), f"{number(found)}{anew}") for key, name in PLANNED.items() if (found := certificate[key])),
    ]
    if status.settings["horizon"] is None:
        rows.append((gettext("error probability"), error_bound(certificate["guarantee"], certificate["delta"])))
    if certificate["frozen"]:
        rows.append((gettext("Frozen agents"), ", ".join(certificate["frozen"])))
    rows += [(gettext("warning"), translated(words)) for words in certificate["warnings"] or ()]
    return _table(gettext("Certificate"), (gettext("Item"), gettext("Value")), rows)


routes = [
    page("/studies/{study}/report", report),
    page("/studies/{study}/report.md", report_markdown),
]
