"""The objects of fuzzed requests: a live study, a finished one, and tokens of every kind; renewed when used up."""

from pathlib import Path

from msgspec.structs import replace
from tests.coordinator.support import report_of, study_message
from tools.pages import read

from parley.coordinator.record import studies
from parley.protocol import Stage

DOCS = Path(__file__).parents[2] / "docs" / "appendix" / "api.md"
MESSAGE = study_message(agents=2, arms=3, policy="uniform")
FINISHED = "finished"
READERS = ("viewer", "analyst", "auditor")


class World:
    """A coordinator with objects of every kind; `study` is in its second phase and has one of two reports."""

    def __init__(self, house):
        self.house, self.turn, self.study, self.touched, self._session = house, 0, "", set(), None
        self.tokens = {"administrator": house.token, "nobody": None, "garbage": "parley_0123456789abcdef_" + "A" * 43}
        for role in READERS:
            self.tokens[role] = self._issue(role=role, name=role)["token"]
        spare, gone = self._issue(role="viewer", name="spare"), self._issue(role="viewer", name="gone")
        self.tokens["revoked"] = gone["token"]
        self.kids = [spare["kid"], gone["kid"]]
        house.admin.request("DELETE", "tokens", gone["kid"])
        house.run(MESSAGE, house.create(MESSAGE, FINISHED), FINISHED)
        self.tokens |= {f"{name} of {FINISHED}": house.tokens[FINISHED, name] for name in MESSAGE.agents}
        self.renew()

    def _issue(self, **body):
        return self.house.admin.request("POST", "tokens", json=body)

    def renew(self):
        """Create another live study, with tokens for its agents."""
        self.turn += 1
        self.study = f"live-{self.turn}"
        agents = self.house.create(MESSAGE, self.study)
        for place, name in [*enumerate(MESSAGE.agents), (0, MESSAGE.agents[0])]:
            self.receipt = agents[place].send(report_of(agents[place].plan(self.study, name), place))
        for name in MESSAGE.agents:
            self.tokens[name] = self.house.tokens[self.study, name]
        self.clients = dict(zip(MESSAGE.agents, agents, strict=True))
        self.touched.add(self.study)

    def row(self):
        """The database row of the live study."""
        return self.house.storage.read(lambda connection: studies.get(connection, self.study))

    def ready(self, operation):
        """Prepare a request: the study must run, or be paused if the operation resumes it."""
        stage = self.row().stage
        if stage not in (Stage.RUNNING, Stage.CLOSING, Stage.PAUSED) or (
            stage is Stage.PAUSED and operation != "resume_study"
        ):
            self.renew()
        elif stage is Stage.RUNNING and operation == "resume_study":
            self.house.admin.request("POST", "studies", self.study, "pause", json={"reason": "to be resumed"})

    def told(self, operation, status):
        """Update the world after a request: forget the session or study that it used up."""
        if operation == "end_session" and status == 200:
            self._session = None
        if operation == "freeze_agent" and status == 200:
            self.renew()

    def authorization(self, who):
        """The Authorization header for a kind of caller; None for callers without one."""
        if who == "session":
            if self._session is None:
                self._session = self.house.admin.request("POST", "sessions")["session"]
            return f"Session {self._session}"
        token = self.tokens[who]
        return None if token is None else f"Bearer {token}"

    def report(self, agent):
        """The report that the agent owes, or would owe."""
        plan = self.clients[agent].plan(self.study, agent)
        return report_of(replace(plan, draws=plan.draws or (1, 1, 1)), MESSAGE.agents.index(agent))

    def body(self, operation, agent, number):
        """A valid body for an operation, as far as possible; None for an operation without a body."""
        reason = {"reason": f"reason {number}"}
        match operation:
            case "create_study":
                return {"id": f"made-{self.turn}-{number}", "study": MESSAGE.to_json()}
            case "estimate_study":
                return {"study": MESSAGE.to_json()}
            case "put_report":
                return self.report(agent).to_json()
            case "amend_report":
                report = self.report(agent)
                pairs = zip(report.squares, report.counts, strict=True)
                other = replace(report, squares=tuple(value + number % 7 * min(1, count) for value, count in pairs))
                return {**reason, "report": other.to_json()}
            case "freeze_agent":
                shown = self.house.admin.request("GET", "studies", self.study, "agents", agent, "freeze")
                return {**reason, "preview": shown["digest"]}
            case "pause_study" | "resume_study" | "cancel_study":
                return reason
            case "issue_token":
                return {"role": "viewer", "name": f"reader {self.turn} {number}", "study": self.study, "agent": None}
        return None

    def unsound(self):
        """Why the logs of the studies used so far do not verify; each is checked only once."""
        wrong = []
        for study in sorted(self.touched):
            found = self.house.admin.request("POST", "studies", study, "verify")
            wrong += [] if found["sound"] else [(study, found["problem"])]
        self.touched = {self.study}
        return wrong


def documented_problems():
    """slug -> (status, retry), from the table of docs/appendix/api.md."""
    rows = {}
    for line in read(DOCS).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0].startswith("`") and cells[1].isdigit():
            rows[cells[0].strip("`")] = int(cells[1]), cells[2] == "yes"
    return rows
