"""Live studies without I/O: messages, events, the table of transitions, the log's hash chain, and its verification."""

from parley.protocol.certificate import issue_certificate
from parley.protocol.events import EVENTS, GENESIS, Event, Record, kind_of, read_event, require_readable
from parley.protocol.messages import Certificate, Decision, Plan, Receipt, Report, StudyMessage
from parley.protocol.previews import freeze_preview
from parley.protocol.replaying import apply, create, replay
from parley.protocol.report_checks import check_adjustment, check_between, check_report
from parley.protocol.state_machine import TRANSITIONS, Held, Place, Situation, Stage, admit
from parley.protocol.trial import Step, Trial
from parley.protocol.verify import Proof, Stamp, Verification, read_log, verify_log

__all__ = [
    "EVENTS",
    "GENESIS",
    "TRANSITIONS",
    "Certificate",
    "Decision",
    "Event",
    "Held",
    "Place",
    "Plan",
    "Proof",
    "Receipt",
    "Record",
    "Report",
    "Situation",
    "Stage",
    "Stamp",
    "Step",
    "StudyMessage",
    "Trial",
    "Verification",
    "admit",
    "apply",
    "check_adjustment",
    "check_between",
    "check_report",
    "create",
    "freeze_preview",
    "issue_certificate",
    "kind_of",
    "read_event",
    "read_log",
    "replay",
    "require_readable",
    "verify_log",
]
