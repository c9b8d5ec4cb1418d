"""Random walks over everything that can happen to a study, by requests, and everything that anybody can read of it."""

import json
import random
import re
import tomllib
import traceback
from dataclasses import replace
from html.parser import HTMLParser

import httpx2
import numpy as np
from click.testing import CliRunner
from tests.coordinator.support import OWN_PAGE
from tests.dashboard.site import OF_NO_STUDY, PAGES, sign_in

from parley.agent.outcomes import DrawnOutcome
from parley.agent.plans import Delivery
from parley.cli.main import main
from parley.dashboard.session import STUDY
from parley.errors import ParleyError, Unreachable
from parley.protocol import StudyMessage
from parley.protocol.messages import BetweenTotals, OutcomeTotals
from parley.study import parse_study
from parley.totals import Totals

HEAD = """
name = "Four places <b>"
arms = ["placebo", "low", "high", "later"]
agents = ["North", "South", "East", "West"]
delta = 0.2
audience = "{audience}"
"""
WEIGHTS = """
[weights]
kind = "matrix"
matrix = [[0.6, 0.2, 0.0, 0.1], [0.2, 0.6, 0.0, 0.1], [0.1, 0.1, 1.0, 0.0], [0.1, 0.1, 0.0, 0.8]]
"""
# A guardrail of each kind, and an outcome that decides nothing.
OUTCOMES = """
[[outcomes]]
name = "bleeding"
kind = "binary"
role = "guardrail"
better = "lower"
margin = 0.1
delta = 0.1
[[outcomes]]
name = "alive"
kind = "binary"
role = "guardrail"
better = "higher"
limit = 0.5
delta = 0.1
on_alarm = "propose"
[[outcomes]]
name = "pain"
kind = "bounded"
low = 0.0
high = 1.0
role = "secondary"
better = "lower"
"""
# Of these outcomes, arm by arm: high bleeds, and of those on low many die.
OTHERS = {"bleeding": (0.05, 0.1, 0.95, 0.1), "alive": (0.95, 0.02, 0.9, 0.95), "pain": (0.5, 0.4, 0.3, 0.2)}
# A kind of study each: what a page says depends on its settings.
STUDIES = {
    "rates": """control = "placebo"
dormant = ["later"]
tolerance = 0.15
[noise]
kind = "binary"
[sampling]
price = 2.0
rate = [10, 20, 10, 5]
delay = 3
""",
    "budget": """answers = "each"
max_samples = 900
dormant = ["later"]
[noise]
kind = "bounded"
low = 0.0
high = 1.0
""",
    "private": """tolerance = 0.3
[noise]
kind = "binary"
[privacy]
rho = 0.05
minimum_cell = 2
""",
    "guarded": f"""control = "placebo"
dormant = ["later"]
tolerance = 0.15
[noise]
kind = "binary"
{OUTCOMES}""",
    "masked with people between phases": f"""control = "placebo"
dormant = ["later"]
tolerance = 0.15
[noise]
kind = "binary"
[sampling]
rate = [10, 20, 10, 5]
delay = 20
[sites]
kits = true
between = "assign"
{OUTCOMES}""",
    "guarded in private": f"""control = "placebo"
tolerance = 0.3
[noise]
kind = "binary"
[privacy]
rho = 0.5
{OUTCOMES}method = "hoeffding"
""",
    "counts": """control = "placebo"
dormant = ["later"]
tolerance = 0.2
[noise]
kind = "count"
mean = 0.8
""",
    "plain": """policy = { name = "wcpe" }
largest_gap = 1.0
[noise]
kind = "gaussian"
scale = 1.0
""",
    "unknown scale": """control = "placebo"
dormant = ["later"]
[noise]
kind = "gaussian"
scale = "unknown"
guess = 0.5
""",
    "play": """horizon = 3000
[noise]
kind = "bounded"
low = 0.0
high = 1.0
""",
}
MEANS = np.array([[0.3, 0.2, 0.4, 0.3], [0.5, 0.4, 0.9, 0.4], [0.9, 0.95, 0.1, 0.2], [0.1, 0.2, 0.3, 0.98]])
ROLES = ("administrator", "auditor", "analyst", "viewer")
# How often each is tried.
ACTS = {
    "report": 8, "report_all": 5, "report_short": 4, "report_what_cannot_be": 2, "pause": 1, "resume": 6, "freeze": 2,
    "freeze_and_reweigh": 1, "thaw": 3, "reweigh": 1, "open_arm": 2, "withdraw_arm": 1, "close_early": 3, "take": 3,
    "refuse": 3, "correct": 3, "sign": 1,
}  # fmt: skip
ENDINGS = ("run", "cancel")
# Acts in this order, whatever else is refused: each leaves something that an answer has to tell.
STORY = (
    "report_short", "report_all", "pause", "resume", "report", "close_early", "report_all", "withdraw_arm",
    "freeze_and_reweigh", "run", "correct", "sign",
)  # fmt: skip


def message(kind, audience, more=""):
    """A study of a kind, for an audience; `more` are further settings."""
    text = HEAD.format(audience=audience) + STUDIES[kind]
    keys = tomllib.loads(text + WEIGHTS)
    for name, section in tomllib.loads(more).items():
        keys[name] = keys.get(name, {}) | section
    return StudyMessage.of(parse_study(keys))


class Walk:
    """One study, whose acts are requests; what may not happen now is refused with a 4xx."""

    def __init__(self, house, study, seed, study_id="trial"):
        self.house, self.study, self.id = house, study, study_id
        self.chance, self.rng = random.Random(seed), np.random.default_rng(seed)
        self.clients = dict(zip(study.agents, house.create(study, study_id), strict=True))
        self.done = []

    def ask(self, method, *place, **options):
        return self.house.admin.request(method, "studies", self.id, *place, **options)

    def step(self, name=None):
        """One act, chosen by chance unless named; whether it happened."""
        name = name or self.chance.choices(list(ACTS), list(ACTS.values()))[0]
        try:
            happened = getattr(self, name)() is not False
        except Unreachable as error:  # also what a server says of a fault of its own; a report may be held
            happened = name == "report_what_cannot_be"
            if not happened and not str(error.problem.get("type")).endswith(("report-held", "stage-changed")):
                raise
        except ParleyError:
            happened = False
        if happened:
            self.done.append(name)
        return happened

    def run(self):
        """Report until it is over; what waits for somebody is resumed, taken or thawed."""
        for _ in range(60):
            if self.status["stage"] in ("finished", "cancelled"):
                return True
            self.step("resume")
            self.step("take")
            if not self.step("report_all") and not self.step("thaw"):
                break
        return False

    def end(self, how):
        """Let it come to an end."""
        return (how == "run" and self.run()) or self.step("cancel")

    @property
    def status(self):
        return self.ask("GET")

    def drawn(self, counts, means, noise):
        """Totals of rewards, or of another outcome, of the kind that the study states."""
        counts = np.array(counts)
        sums = np.array([self.rng.binomial(n, means[k]) for k, n in enumerate(counts)], dtype=float)
        if self.study.problem.rho is not None:
            off = np.round(self.rng.normal(0, 3, len(counts)) / noise.grid) * noise.grid
            return Totals(counts=counts, sums=np.where(counts > 0, sums + off, 0.0))
        return Totals(counts=counts, sums=sums, squares=sums.copy())

    def delivered(self, counts, agent, missing=(), **more):
        """What an agent has: of some people one of the further outcomes is missing too."""
        problem = self.study.problem
        people = [n + gone for n, gone in zip(counts, missing or [0] * len(counts), strict=True)]
        others = []
        for one in problem.outcomes:
            gone = [min(n, self.chance.choice([0, 0, 1])) for n in people]
            known = [n - lost for n, lost in zip(people, gone, strict=True)]
            totals = self.drawn(known, OTHERS[one.name], one.noise)
            others.append(DrawnOutcome(name=one.name, totals=totals, missing=tuple(gone)))
        place = self.study.agents.index(agent)
        totals = self.drawn(counts, MEANS[:, place], problem.noise)
        return Delivery(totals=totals, missing=tuple(missing), outcomes=tuple(others), **more)

    def plan(self, agent):
        return self.clients[agent].plan(self.id, agent)

    def agent(self):
        return self.chance.choice(self.study.agents)

    def arm(self):
        return self.chance.choice(self.study.arms)

    # What may happen.

    def report(self, agent=None):
        agent = agent or self.agent()
        plan = self.plan(agent)
        if not plan.due:
            return False
        self._send(plan, self.delivered(plan.draws, agent))
        return True

    def _send(self, plan, delivery):
        """With whom the agent assigned for the next phase, and before this one for it; some of them were unmasked."""
        more, problem = {}, self.study.problem
        if plan.most_ahead:
            more["ahead"] = tuple(plan.most_ahead * draws // max(sum(plan.draws), 1) for draws in plan.draws)
        if plan.between:
            gone = [min(n, self.chance.choice([0, 0, 1])) for n in plan.between]
            early = self.delivered([n - lost for n, lost in zip(plan.between, gone, strict=True)], plan.agent, gone)
            others = tuple(OutcomeTotals.of(one.name, one.totals, one.missing) for one in early.outcomes)
            more["between"] = BetweenTotals.of(early.totals, tuple(gone), others)
        if problem.kits:
            more["unmasked"] = self.chance.choice([0, 1, 2])
        self.clients[plan.agent].send(plan.report(replace(delivery, **more)))

    def report_all(self):
        return sum(self._tried(agent) for agent in self.study.agents) > 0

    def _tried(self, agent):
        try:
            return self.report(agent)
        except ParleyError:
            return False

    def report_short(self):
        """Fewer than planned, some without an outcome."""
        agent = self.agent()
        plan = self.plan(agent)
        if not plan.due:
            return False
        counts = [int(n * self.chance.choice([0, 0.5, 0.9, 1])) for n in plan.draws]
        missing = [min(1, planned - n) for planned, n in zip(plan.draws, counts, strict=True)]
        short = {"reason": "supply", "final": True} if counts != list(plan.draws) else {}
        delivery = self.delivered(counts, agent, missing if any(missing) else (), **short)
        self._send(plan, delivery)
        return True

    def report_what_cannot_be(self):
        """Held: it waits for an administrator."""
        agent = self.agent()
        plan = self.plan(agent)
        if not plan.due:
            return False
        delivery = self.delivered(plan.draws, agent)
        totals = delivery.totals
        sums = totals.counts * np.array([0.0, 0, 0, 1]) if totals.squares is not None else totals.sums
        odd = Totals(counts=totals.counts, sums=sums, squares=sums.copy() if totals.squares is not None else None)
        self._send(plan, replace(delivery, totals=odd))
        return True

    def pause(self):
        self.ask("POST", "pause", json={"reason": "look"})

    def resume(self):
        self.ask("POST", "resume", json={"reason": "looked"})

    def cancel(self):
        self.ask("POST", "cancel", json={"reason": "enough"})

    def _confirm(self, *place, preview=(), **body):
        asked = {"json": body} if preview else {}
        shown = self.ask("POST" if preview else "GET", *place, *preview, **asked)
        self.ask("POST", *place, json={"reason": "as agreed", "preview": shown["digest"], **body})

    def freeze(self):
        self._confirm("agents", self.agent(), "freeze")

    def freeze_and_reweigh(self):
        place = ("agents", self.agent(), "freeze")
        shown = self.ask("GET", *place)
        self.ask("POST", *place, json={"reason": "closed", "preview": shown["digest"], "reweigh": True})

    def thaw(self):
        frozen = self.status["frozen"]
        if not frozen:
            return False
        self._confirm("agents", self.chance.choice(frozen), "thaw")
        return True

    def reweigh(self):
        self._confirm("reweigh", preview=("preview",), columns={})

    def open_arm(self):
        self._confirm("arms", self.arm(), "open")

    def withdraw_arm(self):
        self._confirm("arms", self.arm(), "withdraw")

    def close_early(self):
        self._confirm("phases", self.status["phase"], "close-early")

    def _held(self):
        return self.ask("GET", "quarantine", params={"held": True})["quarantine"]

    def take(self):
        return self._settled("amend", "report")

    def refuse(self):
        return self._settled("refuse", "digest")

    def _settled(self, way, named):
        held = self._held()
        if not held:
            return False
        report = held[0]["report"]
        place = ("phases", report["phase"], "reports", report["agent"], way)
        self.ask("POST", *place, json={"reason": "seen", "report": held[0][named]})
        return True

    def correct(self):
        """A report of a decided phase, with other sums."""
        phase = self.chance.randint(1, max(self.status["phase"] - 1, 1))
        reports = self.ask("GET", "phases", phase, "reports")["reports"]
        if not reports:
            return False
        report = self.chance.choice(reports)["report"]
        agent, counts, sums = report["agent"], report["counts"], report["sums"]
        arm = max(range(len(counts)), key=lambda k: counts[k] - sums[k])  # with room for one more
        report["sums"][arm] += 1
        if "squares" in report:
            report["squares"][arm] = report["sums"][arm]
            for one in report.get("outcomes", ())[:1]:  # nobody bled: a guardrail may read it otherwise
                one["sums"], one["squares"] = ([0 for _ in one[name]] for name in ("sums", "squares"))
        place = ("phases", phase, "reports", agent, "correct")
        self._confirm(*place, preview=("preview",), report=report)
        return True

    def sign(self):
        body = {"name": "A. Person", "meaning": "reviewed the results", "token": self.house.token}
        self.ask("POST", "signatures", json=body)


class Readers:
    """Everybody who may read, signed in; `everything` of a study is what each of them can open."""

    def __init__(self, house):
        self.house, self.browsers, self.tokens, self.noted = house, {}, {}, ""
        for role in ROLES:
            token = house.token if role == "administrator" else self._issue(role)
            options = {"transport": house.application, "follow_redirects": True, "headers": OWN_PAGE}
            browser = httpx2.Client(base_url="http://coordinator", **options)
            assert sign_in(browser, token).url.path == "/", "signed in, or every page would be that of signing in"
            self.browsers[role], self.tokens[role] = browser, token

    def _issue(self, role):
        return self.house.admin.request("POST", "tokens", json={"role": role, "name": role})["token"]

    def note(self, error):
        """Keep the traceback of what a page failed of."""
        self.noted = "".join(traceback.format_exception(error)[-6:])

    def close(self):
        for browser in self.browsers.values():
            browser.close()

    def addresses(self, status):
        """Every page; those of acts with everything that may be asked for."""
        agents, arms = status["agent_names"], status["arm_names"]
        previews = [f"freeze={agents[0]}", f"thaw={agents[1]}", "reweigh=1", "close-early=1"]
        previews += [f"withdraw-arm={arms[1]}", f"open-arm={arms[-1]}", f"correct={agents[2]}&phase=1"]
        study = STUDY.format(study=status["id"])
        yield from (page.path.format(study=status["id"]) for page in PAGES if page.path.startswith(STUDY))
        yield f"{study}/answer?verify=1"
        yield from (f"{study}/administration?{wanted}" for wanted in previews)

    def operations(self, status):
        """Every operation of the API that reads."""
        paths = self.browsers["viewer"].get("/v1/openapi.json").json()["paths"]
        for path, operations in paths.items():
            if "get" in operations and not path.endswith("/events"):
                for phase in (1, status["phase"]) if "{phase}" in path else (1,):
                    arm, agent = status["arm_names"][2], status["agent_names"][0]
                    yield path.format(study=status["id"], agent=agent, arm=arm, phase=phase)

    def everything(self, study, *, roles=ROLES):
        """(role, address, answer) of all of it; none may be a fault of the server."""
        status = self.house.admin.status(study)
        for role in roles:
            browser, token = self.browsers[role], {"Authorization": f"Bearer {self.tokens[role]}"}
            asked = [(address, None) for address in (*OF_NO_STUDY, *self.addresses(status))]
            asked += [(address, token) for address in self.operations(status)]
            for address, headers in asked:
                answer = browser.get(address, headers=headers)
                assert answer.status_code < 500, (role, address, answer.text if headers else self.noted)
                yield role, address, answer


class Text(HTMLParser):
    """What a page says, without code."""

    def __init__(self, page):
        super().__init__()
        self.said, self.within = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.within += tag in ("code", "pre", "script", "style", "textarea")

    def handle_endtag(self, tag):
        self.within -= tag in ("code", "pre", "script", "style", "textarea")

    def handle_data(self, data):
        if not self.within:
            self.said.append(data)


# A value that was not turned into words, a mark that was not turned into markup.
ODD = re.compile(r"\bNone\b|\b[Nn]a[Nn]\b|\binf\b|Undefined|</?[a-z]+[ >]|\{[{%]|%\(\w+\)s|object at 0x|\{\d\}|<class")
SHARE = re.compile(r"(−|-)?([\d.]+) (%|points) \((−|-)?([\d.]+) to (−|-)?([\d.]+)\)")


def out_of_range(page):
    """Intervals of rates and of their differences that hold values which neither can have."""
    said = " ".join(" ".join(Text(page).said).split())
    wrong = []
    for found in SHARE.finditer(said):
        least = 0 if found[3] == "%" else -100
        numbers = [float(found[k + 1]) * (-1 if found[k] else 1) for k in (1, 4, 6)]
        wrong += [found[0]] if min(numbers) < least or max(numbers) > 100 else []
    return wrong


def oddities(page, names=()):
    """Pieces of a page that no reader should see."""
    said = " ".join(" ".join(Text(page).said).split())
    for name in names:
        said = said.replace(name, "")
    return [said[max(found.start() - 60, 0) : found.end() + 40] for found in ODD.finditer(said)]


CELL = re.compile(r'<td class="([\w-]+)" data-label="[^"]*">(.*?)</td>', re.DOTALL)
TOO_WIDE = re.compile(r"\((?:−100 to 100|0 to 100|0.00 to 1.00)\)$")


def contradictions(page):
    """Cells of the boards that say two things at once (decided, and too early to say; open, and enough), or nothing."""
    wrong = []
    for status, cell in CELL.findall(page):
        said = " ".join(" ".join(Text(cell).said).split())
        decided = status in ("chosen", "ruled-out", "set-aside", "closed", "cleared", "stopped")
        undecided = status in ("open", "not-cleared-yet")
        if (decided and "too " in said) or (undecided and TOO_WIDE.search(said)):
            wrong.append((status, said))
        if re.search(r"● open\b.*enough evidence to rule it out", said):
            wrong.append((status, said))
    return wrong


def command(house, *words):
    """What a command says, of a server that is there; no traceback."""
    options = {"PARLEY_SERVER": house.url, "PARLEY_TOKEN": house.token}
    result = CliRunner(env=options).invoke(main, words)
    assert result.exit_code in (0, 1), (words, result.output)
    assert isinstance(result.exception, (SystemExit, type(None))), (words, result.exception)
    assert "Traceback" not in result.output
    return result.output


def commands(house, study, folder):
    """Everything that commands tell of a study."""
    for words in (("status",), ("answer",), ("weights",), ("tokens",)):
        named = ("admin", *words, *(() if words == ("tokens",) else (study,)))
        yield named, command(house, *named)
        json.loads(command(house, *named, "--json"))
    log = folder / f"{study}.ndjson"
    log.write_bytes(
        httpx2.Client(transport=house.application, base_url="http://coordinator")
        .get(f"/v1/studies/{study}/export", headers={"Authorization": f"Bearer {house.token}"})
        .content
    )
    yield ("verify",), command(house, "verify", str(log))
