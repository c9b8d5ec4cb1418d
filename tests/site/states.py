"""The states that the page of a site can be in, what people try in each, and what no reader of it should see."""

import re
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from html.parser import HTMLParser

from babel.dates import format_timedelta, get_month_names
from babel.messages.pofile import read_po
from msgspec.structs import replace
from tests.agent.test_site_page import RULES as DOSES
from tests.agent.test_worker import plan
from tests.dashboard.walks import ODD
from tools import catalogs

from parley.agent.outcomes import OutcomeRules
from parley.agent.privacy import Disclosure, SitePolicy
from parley.protocol import Receipt
from parley.protocol.report_checks import CLOSING_REASONS

# Names that are words of no catalog, so that a word of a page that is in none was left over.
NAMES = ("Qrst", "Wxyz", "Vwq", "vwq", "Kq", "kq")
RULES = replace(DOSES, title="Qrst <b>", contact="Wxyz", audience="bandit")
FIXED = replace(RULES, flexible=False)
MEASURED = replace(RULES, values=(), delay=0.0, contact="")
ASKING = replace(RULES, question="Wxyz Vwq?", words=("Kq", "Vwq"))
GRACE = replace(RULES, grace_hours=24.0)
ASSIGNS = replace(RULES, between="assign")
BLED = OutcomeRules(name="Vwq", question="Wxyz Vwq?", delay=7.0, low=0.0, high=1.0, values=(0.0, 1.0))
SEVERAL = replace(RULES, outcomes=(BLED, OutcomeRules(name="Wxyz", low=0.0, high=10.0)))
KITS = replace(RULES, kits=True, arms=("x", "y"))
TABLES = (
    "participant;reward\nKq-1;1\nKq-2;missing\nKq-3;\n",
    "participant;reward\nKq-1;kq\nKq-8;1\nKq-2;1\nKq-2;1\nKq-3;7\n Kq-\u2126;1\nKq-\u03a9;1\n",
    "participant;reward;Vwq\nKq-1;1\nKq-2;1;1;1\n",
    "Kq;Vwq\nKq-1;1\n",
    "participant;reward;Vwq;Wxyz\nKq-1;1;yes;missing\nKq-2;;7;\nKq-9;0;1;99\n",
    'participant;reward\n"Kq-1;1\n',
    "participant;reward\nKq-1;" + "9" * 400 + "\nKq-2;1e400\n",
    "",
)
# What people type anywhere, right or wrong; {n} is another number each time.
TRIED = (
    {"do": "assign", "participant": "Kq-{n}"},
    {"do": "assign", "participant": "Kq-1"},
    {"do": "assign", "participant": "kq 1"},
    {"do": "assign", "participant": ""},
    {"do": "outcome", "participant": "Kq-1", "reward": "1"},
    {"do": "outcome", "participant": "Kq-2", "reward": "1.250,5"},
    {"do": "outcome", "participant": "Kq-2", "reward": "7"},
    {"do": "outcome", "participant": "Kq-2", "reward": "0.5"},
    {"do": "outcome", "participant": "kq1", "reward": "1"},
    {"do": "outcome", "participant": "Kq-999", "reward": "0"},
    {"do": "outcome", "participant": "Kq-3", "reward": "missing"},
    {"do": "outcome", "participant": "Kq-1", "outcome": "Vwq", "reward": "1"},
    {"do": "outcome", "participant": "Kq-2", "outcome": "Wxyz", "reward": "77"},
    {"do": "outcome", "participant": "Kq-2", "outcome": "kq", "reward": "1"},
    {"do": "void", "participant": "Kq-2", "reason": "", "who": "Kq"},
    {"do": "void", "participant": "Kq-1", "reason": "Vwq", "who": "Kq"},
    {"do": "void", "participant": "Kq-4", "reason": "Vwq", "who": "Kq"},
    {"do": "assign", "participant": "Kq-4"},
    {"do": "gone", "participant": "Kq-4"},
    {"do": "gone", "participant": "Kq-999"},
    {"do": "find", "sought": "kq"},
    {"do": "find", "sought": "vwq"},
    {"do": "find", "which": "all", "page": "9"},
    {"do": "find", "which": "due"},
    {"do": "find", "which": "week"},
    {"do": "outcome", "participant": "Kq-1", "reward": "kq"},
    {"do": "correct", "participant": "Kq-1", "value-0": "0", "reason": "Vwq", "who": "Kq", "sought": "Kq-1"},
    {"do": "correct", "participant": "Kq-1", "value-0": "0", "reason": "Vwq", "who": "Kq", "sought": "Kq-1"},
    {"do": "correct", "participant": "Kq-2", "value-0": "7", "reason": "Vwq", "who": "Kq", "sought": "Kq-2"},
    {"do": "correct", "participant": "Kq-3", "value-0": "missing", "reason": "Vwq", "who": "Kq"},
    {"do": "correct", "participant": "Kq-999", "value-0": "1", "reason": "Vwq", "who": "Kq"},
    {"do": "correct", "participant": "Kq-2", "value-0": "0", "reason": "", "who": "Kq"},
    {"do": "unmask", "participant": "Kq-1"},
    {"do": "unmask", "participant": "Kq-999"},
    {"do": "send", "phase": "7"},
    {"do": "release", "phase": "7"},
    {"do": "close", "reason": "kq"},
    {"do": "kq"},
    *({"do": do, "table": text} for text in TABLES for do in ("table", "take")),
)


@dataclass(frozen=True, kw_only=True)
class State:
    """How a desk comes into a state, and what is done in it beside what people try anywhere."""

    reach: object = lambda _: None
    options: dict = field(default_factory=dict)
    acts: tuple = ()


def enrolled(desk, most=6):
    for number in range(1, most + 1):
        desk.site.assign(f"Kq-{number}")


def some(desk):
    enrolled(desk, 4)
    desk.site.outcome("Kq-1", 1.0)
    desk.site.missing("Kq-3")


def complete(desk):
    enrolled(desk)
    for number in range(1, 7):
        desk.site.outcome(f"Kq-{number}", 1.0)


def with_kits(desk):
    desk.site.list_kits(b"kit,arm\nKq01,x\nKq02,y\nKq03,x\nKq04,y\nKq05,x\nKq06,y\n", "Kq")
    some(desk)


def overdue(desk):
    enrolled(desk, 4)
    desk.now += timedelta(days=40)


def late(desk):
    """Marks as missing after all places were given out, of somebody whose outcome was in, and one in reserve."""
    complete(desk)
    desk.site.missing("Kq-1")
    desk.site.missing("Kq-2")
    enrolled(desk, 8)


def reported(desk, receipt=True):
    complete(desk)
    asked = plan(draws=(3, 3))
    report = Disclosure(desk.rules).report(asked, desk.site(asked), None)
    desk.runtime._outbox.keep(report)
    if receipt:
        given = {"study": "s", "phase": 1, "agent": "a", "report": report.digest, "sequence": 2, "head": "a" * 64}
        desk.runtime._outbox.acknowledge(Receipt(**given))


def corrected(desk, *, sent=True, same=False, answer=None, stage=""):
    """Two outcomes of a reported phase were corrected; `answer` is what an administrator said, and why."""
    reported(desk)
    desk.site.correct([("Kq-1", 0.0)], reason="Vwq", who="Kq")
    if sent:
        desk.site.correction_sent(1, report="c" * 64, number=1, same=same)
    if answer:
        desk.site.correction_answered(1, report="c" * 64, accepted=answer[0], reason=answer[1])
    if not sent:
        desk.runtime.unsent[1] = "too many"
    if stage:
        desk.site.seen(stage)


def restored(desk):
    """A correction was accepted, and taken back after that."""
    corrected(desk, answer=(True, "Vwq"))
    desk.site.correct([("Kq-1", 1.0)])
    desk.site.correction_sent(1, report="d" * 64, number=2, same=True)


def several(desk):
    some(desk)
    desk.site.outcome("Kq-1", 0.0, "Vwq")
    desk.site.missing("Kq-2", "Vwq")
    desk.site.outcome("Kq-2", 2.5, "Wxyz")
    desk.now += timedelta(days=9)


def held_several(desk):
    for number in range(1, 7):
        desk.site.assign(f"Kq-{number}")
        desk.site.outcome(f"Kq-{number}", 1.0, "Vwq")
        desk.site.missing(f"Kq-{number}", "Wxyz")
    held(desk)


def held(desk):
    reported(desk, receipt=False)


def ahead(desk):
    """All have their places, and two are assigned for the next phase, of whom one has an outcome."""
    enrolled(desk, 8)
    desk.site.outcome("Kq-7", 1.0)


def early(desk):
    """The next phase, with those two and one of its own; and two more for the one after it."""
    ahead(desk)
    complete(desk)
    told = desk.site(plan(draws=(3, 3))).ahead
    desk.site.begin(phase=2, plan="c" * 64, arms=("x", "y"), draws=(1, 1), between=told, most_ahead=2)
    enrolled(desk, 11)


def held_early(desk):
    """The report of that phase waits: it tells of both."""
    early(desk)
    for number in range(7, 11):
        desk.site.outcome(f"Kq-{number}", 1.0)
    between = desk.site.people.current.plan.between
    asked = plan(phase=2, plan="c" * 64, draws=(1, 1), between=between, most_ahead=2)
    desk.runtime._outbox.keep(Disclosure(desk.rules).report(asked, desk.site(asked), None))


def moved_on(desk):
    some(desk)
    desk.site.begin(phase=2, plan="c" * 64, arms=("x", "y"), draws=(40, 0))


def silent(desk):
    some(desk)
    desk.runtime._contact, desk.runtime.words = time.monotonic() - 600, "no answer; trying again"


def withdrawn(desk):
    enrolled(desk, 4)
    desk.site.close_arms(("x",))


def voided(desk):
    enrolled(desk, 4)
    for number in range(1, 4):
        desk.site.void(f"Kq-{number}", reason="Vwq", who="Wxyz")


def seen(stage, reason="", answer=None):
    def reach(desk):
        some(desk)
        desk.site.seen(stage, reason, answer)

    return State(reach=reach)


def closed(reason):
    def reach(desk):
        some(desk)
        desk.site.finish(reason)

    return State(reach=reach)


HOLD = SitePolicy(hold=True)
STATES = {
    "before the study": State(options={"draws": None}),
    "nobody enrolled": State(),
    "keys of a pattern": State(options={"rules": replace(RULES, key_pattern="Kq-#")}),
    "people assigned": State(reach=lambda desk: enrolled(desk, 4)),
    "asked in words of its own": State(reach=some, options={"rules": ASKING}),
    "eligible or not": State(options={"rules": replace(ASKING, eligibility=("Wxyz?", "Vwq?"), masked=False)}),
    "overdue": State(reach=overdue),
    "voided": State(reach=voided),
    "some outcomes": State(reach=some),
    "measured": State(reach=some, options={"rules": MEASURED}),
    "counts": State(reach=some, options={"rules": replace(MEASURED, high=None, whole=True)}),
    "few values": State(reach=some, options={"rules": replace(MEASURED, values=(0.0, 0.5, 1.0))}),
    "counts of the plan alone": State(reach=some, options={"rules": FIXED}),
    "replaced": State(reach=late, options={"rules": FIXED, "draws": (3, 3)}),
    "all assigned": State(reach=enrolled),
    "outside on the leading arm": State(reach=enrolled, options={"rules": replace(RULES, between="leading")}),
    "for the next phase": State(reach=ahead, options={"rules": ASSIGNS, "most_ahead": 4}),
    "before this phase, held": State(reach=held_early, options={"rules": ASSIGNS, "most_ahead": 4, "policy": HOLD}),
    "before this phase": State(reach=early, options={"rules": ASSIGNS, "most_ahead": 4}),
    "complete": State(reach=complete, options={"rules": GRACE}, acts=({"do": "send", "phase": "1"},)),
    "reported": State(reach=reported),
    "on its way": State(reach=held),
    "held": State(reach=held, options={"policy": HOLD}, acts=({"do": "release", "phase": "1"},)),
    "several outcomes": State(reach=several, options={"rules": SEVERAL}),
    "several outcomes, held": State(reach=held_several, options={"rules": SEVERAL, "policy": HOLD}),
    "private": State(reach=some, options={"rules": replace(RULES, rho=0.05)}),
    "kits": State(reach=with_kits, options={"rules": KITS}),
    "no kits left": State(options={"rules": KITS}),
    "moved on": State(reach=moved_on),
    "paused": seen("paused"),
    "paused with a reason": seen("paused", "Vwq"),
    "deciding": seen("closing"),
    "stalled": seen("stalled"),
    "frozen": seen("frozen"),
    "cancelled": seen("cancelled", "Vwq"),
    "finished": seen("finished"),
    "finished without an answer": seen("finished", answer=()),
    "a stage of a later version": seen("Kq"),
    "finished with the answer": seen("finished", answer=("x",)),
    "arm withdrawn": State(reach=withdrawn),
    "coordinator unreachable": State(reach=silent),
    "correction on its way": State(reach=partial(corrected, sent=False)),
    "correction waits": State(reach=corrected),
    "correction accepted": State(reach=partial(corrected, answer=(True, "Vwq"))),
    "correction refused": State(reach=partial(corrected, answer=(False, "Vwq"), stage="finished")),
    "correction taken back": State(reach=partial(corrected, same=True)),
    "correction taken back after it was accepted": State(reach=restored, options={"rules": MEASURED}),
    **{f"closed: {reason}": closed(reason) for reason in CLOSING_REASONS},
}  # fmt: skip


class Said(HTMLParser):
    """What a page says in its reader's language: text and what is read out, without code and what was typed."""

    ALOUD = ("aria-label", "title", "placeholder", "alt")
    NOT_SAID = ("code", "script", "style", "textarea")
    VOID = ("meta", "link", "input", "br", "img", "hr")

    def __init__(self, page):
        super().__init__()
        self.parts, self.aside = [], 0
        self.feed(page)

    @property
    def text(self):
        return " ".join(" | ".join(self.parts).split())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.parts += [given[name] for name in self.ALOUD if name in given and not self.aside and tag != "code"]
        aside = tag in self.NOT_SAID or ("lang" in given and tag != "html")
        if tag not in self.VOID:
            self.aside += 1 if self.aside or aside else 0

    def handle_endtag(self, tag):
        self.aside -= 1 if self.aside else 0

    def handle_data(self, data):
        if not self.aside and data.strip():
            self.parts.append(data)


WORD = re.compile(r"[^\W\d_]{2,}")


@cache
def vocabulary(language, audience):
    """Every word that the catalogs of a reader have, and those of dates."""
    if language == "en":
        with (catalogs.FOLDER / catalogs.TEMPLATE).open("rb") as file:
            texts = [text for message in read_po(file) for text in catalogs.forms(message)]
        own = [audience] if audience in catalogs.names() else []
    else:
        texts, own = [], [name for name in (language, f"{language}_{audience}") if name in catalogs.names()]
    texts += [text for name in own for message in catalogs.catalog(name) for text in catalogs.strings(message)]
    known = {word.lower() for text in texts for word in WORD.findall(catalogs.VALUE.sub(" ", text))}
    spans = [timedelta(seconds=-11), timedelta(minutes=1), timedelta(minutes=-10), timedelta(hours=-2)]
    dates = [*get_month_names("wide", locale=language).values()]
    dates += [format_timedelta(span, add_direction=True, locale=language) for span in spans]
    return known | {word.lower() for text in dates for word in WORD.findall(text)} | {"parley", "utc", "csv"}


def left_over(page, language, audience, names=NAMES):
    """What is odd in a page, and its words that no catalog of its reader has."""
    said = Said(page).text
    for name in ("Qrst <b>", "No outcome will come", *names):
        said = said.replace(name, "")
    known = vocabulary(language, audience)
    unknown = [found for found in WORD.finditer(said) if found[0].lower() not in known]
    return [said[max(found.start() - 60, 0) : found.end() + 40] for found in (*ODD.finditer(said), *unknown)]
