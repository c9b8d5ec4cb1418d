"""Administrators' acts while studies run and servers die, such as freezing an agent or withdrawing an arm.

If an answer is lost, the study's status shows whether the act happened; if not, it is repeated.
"""

from parley.errors import Conflict, NotThere, Rejected

AGENT = "agent 3"  # the agent that is lost, and comes back in some studies
ARM = "arm 3"  # dormant in studies where arms come and go
# Agent 1 asks only about its own rewards, so its question can go on without agent 3; those of the others are blocked.
DORMANT = {
    "policy": "evidence",
    "weights": ((1.0, 0.0, 0.0), (0.0, 0.5, 0.5), (0.0, 0.5, 0.5)),
    "dormant": (ARM,),
}


class Office:
    """The acts of one study, each done as soon as it is allowed."""

    def __init__(self, admin, study, retried, script):
        self.admin, self.study, self.retried, self.script = admin, study, retried, list(script)

    def look(self):
        """Perform the next act if it is due."""
        if not self.script:
            return
        status = self.retried(lambda: self.admin.status(self.study))
        when, act, done = self.script[0]
        if status["stage"] in ("finished", "cancelled") or done(status):
            del self.script[0]
        elif when(status):
            try:
                act(self)
            except (Conflict, NotThere, Rejected):  # the study moved on, or an answer was lost: check again
                return

    def request(self, method, *parts, **options):
        return self.retried(lambda: self.admin.request(method, "studies", self.study, *parts, **options))

    def confirm(self, method, preview, act, **body):
        shown = self.request(method, *preview, **({"json": body} if method == "POST" else {}))
        self.request("POST", *act, json={"reason": "closed", "preview": shown["digest"], **body})


def _freeze(office):
    office.confirm("GET", ("agents", AGENT, "freeze"), ("agents", AGENT, "freeze"))


def _thaw(office):
    office.confirm("GET", ("agents", AGENT, "thaw"), ("agents", AGENT, "thaw"))


def _reweigh(office):
    office.confirm("POST", ("reweigh", "preview"), ("reweigh",), columns={})


def _open(office):
    office.confirm("GET", ("arms", ARM, "open"), ("arms", ARM, "open"))


def _withdraw(office):
    office.confirm("GET", ("arms", ARM, "withdraw"), ("arms", ARM, "withdraw"))


def _correct(office):
    """Correct a report, once only, since the study's status does not show corrections."""
    if not office.request("GET", "corrections")["corrections"]:
        place = ("phases", 1, "reports", "agent 1")
        report = office.request("GET", *place)["report"]
        report["sums"][0] += 0.01
        office.confirm("POST", (*place, "correct", "preview"), (*place, "correct"), report=report)
    del office.script[0]


def _refuse(office):
    for entry in office.request("GET", "quarantine", params={"held": True})["quarantine"]:
        report, body = entry["report"], {"reason": "a slip", "report": entry["digest"]}
        office.request("POST", "phases", report["phase"], "reports", report["agent"], "refuse", json=body)


def _is_frozen(status):
    return any(entry["agent"] == AGENT for entry in status["frozen"])


def _left(*names):
    return lambda status: status["reweighed"] is not None and status["reweighed"]["left"] == list(names)


def _running(status):
    return status["stage"] == "running"


def _later(status):
    return status["stage"] == "running" and status["phase"] >= 2


def _stalled(status):
    return status["stage"] == "stalled"


def _held(status):
    return any(entry["held"] for entry in status["missing"])


FREEZE, THAW = (_later, _freeze, _is_frozen), (_running, _thaw, lambda status: not _is_frozen(status))
FREEZE_EARLY = (_running, _freeze, _is_frozen)  # the data will not answer the others, so a phase is opened
LEAVE, RETURN = (_running, _reweigh, _left(AGENT)), (_running, _reweigh, _left())
LEAVE_STALLED = (_stalled, _reweigh, _left(AGENT))
RETURN_STALLED = (_stalled, _thaw, lambda status: not _is_frozen(status))
CORRECT = (_stalled, _correct, lambda _: False)  # its certificate is revoked, and a new one follows
OPEN = (_stalled, _open, lambda status: ARM not in status["closed_arms"])
WITHDRAW = (_stalled, _withdraw, lambda status: ARM in status["closed_arms"])
REFUSE = (_held, _refuse, lambda _: False)  # stays active until the study is over

# (acts, whether an agent first sends a report that is held, changes to the study)
SCRIPTS = [
    ((), False, {}),
    ((FREEZE, LEAVE), False, {}),
    ((FREEZE_EARLY, LEAVE_STALLED), False, {}),
    ((FREEZE, CORRECT, RETURN_STALLED), False, {}),
    ((FREEZE, LEAVE, THAW, RETURN), False, {}),
    ((FREEZE, OPEN, WITHDRAW, RETURN_STALLED), False, DORMANT),
    ((REFUSE,), True, {}),
]
