"""A live study without I/O: messages, events, the one table of transitions, the log's chain, and its verification."""

from parley.protocol.admission import admit
from parley.protocol.certificates import issue_certificate
from parley.protocol.chain import GENESIS, Record, chained, check_receipts, new_salt
from parley.protocol.consequences import Consequences, freeze_consequences
from parley.protocol.events import EVENTS, Event, kind_of, read_event
from parley.protocol.messages import Certificate, Decision, Plan, Receipt, Report, StudyMessage
from parley.protocol.moves import apply, create, replay
from parley.protocol.reports import check_exactly, check_rewards
from parley.protocol.situation import Held, Place, Situation
from parley.protocol.stages import TRANSITIONS, Stage
from parley.protocol.tellable import require_tellable
from parley.protocol.trial import Step, Trial
from parley.protocol.turns import past_of
from parley.protocol.verify import Amendment, Verification, read_log, verify_log

__all__ = [
    "EVENTS",
    "GENESIS",
    "TRANSITIONS",
    "Amendment",
    "Certificate",
    "Consequences",
    "Decision",
    "Event",
    "Held",
    "Place",
    "Plan",
    "Receipt",
    "Record",
    "Report",
    "Situation",
    "Stage",
    "Step",
    "StudyMessage",
    "Trial",
    "Verification",
    "admit",
    "apply",
    "chained",
    "check_exactly",
    "check_receipts",
    "check_rewards",
    "create",
    "freeze_consequences",
    "issue_certificate",
    "kind_of",
    "new_salt",
    "past_of",
    "read_event",
    "read_log",
    "replay",
    "require_tellable",
    "verify_log",
]
