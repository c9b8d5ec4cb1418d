"""The answers of the API: handlers return them, OpenAPI and docs/api.md list them, pages read them.

Each field becomes a key of the same name in the JSON object. Values about single arms are null for blinded readers
(docs/api.md, Blinding).
"""

import types
from typing import Any

from parley.protocol.acts import ACTS
from parley.protocol.codec import Digest, Message, Model
from parley.protocol.messages import Correction, Receipt, Report
from parley.protocol.verify import Read, Signature


class Answer(Model):
    """An answer of the API.

    >>> Health(status="ok", version="1").to_json()
    {'status': 'ok', 'version': '1'}
    """


class Health(Answer):
    """The answer to a liveness check: the process is running, whether or not it can store anything."""

    status: str
    version: str


class Ready(Answer):
    """The answer to a readiness check: a write that is made now would be durable."""

    status: str


class Who(Answer):
    """Role and scope of a token."""

    kid: str
    role: str
    principal: str
    study: str | None  # None: every study
    agent: str | None
    blinded: bool


class StudyLine(Answer):
    """A study in one line. `sequence` and `head` are null for readers who may not see the data."""

    id: str
    name: str
    policy: str
    arms: int  # number of arms
    agents: int
    questions: int  # agents that only ask: they draw nothing
    stage: str
    reason: str  # why the study is paused or cancelled
    phase: int
    awaited: int  # reports still missing in the phase in progress
    samples: int  # samples in accepted reports
    created_at: str
    opened_at: str  # when the phase in progress began
    version: str  # opaque; changes with every event of the study
    sequence: int | None  # number of the last record of the log
    head: str | None  # hash of that record
    digest: str  # digest of the study's document, with the weights and arms in force


class ListedStudy(StudyLine):
    """A study in the list of studies, with the reports that its phase in progress asks for."""

    asked: int  # agents that the phase in progress asks to draw
    reported: int  # how many of these agents have reported


class Studies(Answer):
    """The studies that a token can read. `next` continues the list; `damaged` has the ids of unreadable rows."""

    studies: list[ListedStudy]
    next: str | None
    version: str
    damaged: list[str]


class Reported(Answer):
    """An agent that has reported in the phase in progress."""

    agent: str
    at: str


class Awaited(Answer):
    """An agent whose report is awaited. Its site may send the numbers of people recruited and of outcomes observed."""

    agent: str
    since: str
    recruited: int | None = None
    observed: int | None = None
    held: str | None = None  # why its report waits for an administrator; null for blinded readers
    objection: str | None = None  # why the site draws or sends nothing: its own policy does not allow it
    unmasked: int | None = None  # people of a masked study who were unmasked at the site, if any


class FrozenAgent(Answer):
    """A frozen agent: since when it is frozen, and why."""

    agent: str
    phase: int  # the phase in progress when it was frozen
    reason: str
    at: str


class ReweighedStudy(Answer):
    """The last re-weighing, in which frozen agents were left out of the question."""

    phase: int  # the phase in progress then; earlier phases were decided under other weights
    reason: str
    left: list[str]  # agents whose own questions are dropped while they are frozen


class ChangedArm(Answer):
    """The last change of an arm that was opened or withdrawn while the study was running."""

    arm: str
    open: bool  # whether it was opened; otherwise withdrawn
    phase: int  # the phase in progress then
    reason: str
    at: str


class StudyStatus(StudyLine):
    """The status of a study: its stage, its settings, which reports it waits for, and since when."""

    arm_names: list[str]
    agent_names: list[str]
    settings: dict[str, Any]  # the study's settings; lists and matrices are only in its document
    descriptions: dict[str, str]  # key of the study file -> a sentence, for every setting that is not the default
    guarantee: str
    extent: str  # the planned number of looks and the largest number of samples, if known in advance; may be empty
    together: bool  # the agents are answered jointly: no answer is final before every agent is settled
    rates: bool  # rewards are 0 or 1: means are shown in per cent
    warnings: list[str]  # assumptions that the data contradict; empty for blinded readers
    asked: int
    reported: list[Reported]
    missing: list[Awaited]
    frozen: list[FrozenAgent]
    end: str  # how the worst of all agents' questions ended: decided, accepted, exhausted, blocked, cancelled or open
    reweighed: ReweighedStudy | None
    closed_arms: list[str]  # dormant or withdrawn arms, which are no agent's candidates
    changed_arms: list[ChangedArm]
    outcomes: list[str]  # names of the further outcomes


Counts = list[list[int]]  # [arm][agent]
Numbers = list[list[float | None]]  # [arm][agent]; null where not finite


class ByArm(Answer):
    """Totals over all agents: for each status the number of agents per arm, and every arm's draws."""

    statuses: dict[str, list[int]]  # status -> per arm, the number of agents for which the arm has it
    drawn: list[int]  # draws in decided phases
    spent: list[int]  # draws in all accepted reports, including those of the phase in progress


class EstimatedRegret(Answer):
    """The estimated regret of all agents' draws so far, with limits two standard errors below and above it."""

    estimate: float
    low: float
    high: float


class RegretStanding(Answer):
    """Progress of a study with a horizon. Without data, and for blinded readers, only `horizon` and `left` are set."""

    horizon: int | str
    left: list[int]  # each agent's draws until the horizon
    regret: EstimatedRegret | None = None
    agents: list[float] | None = None  # each agent's part of the regret
    leaders: list[str] | None = None  # the arm that each agent plays
    exploring: list[int] | None = None  # draws of the phase in progress of arms other than the leader


class Board(Answer):
    """A table of arms and agents: the status of every arm for every agent, and since which phase."""

    study: str
    stage: str
    phases: int  # number of decided phases
    blinded: bool
    arms: list[str]
    agents: list[str]  # the agents in this answer
    first: int  # index of the first of them
    agent_count: int
    top: int
    open_pairs: int  # candidates of agents without an answer
    decided_agents: int
    candidates: list[int]  # per agent: how many arms are still candidates
    drawn: list[int]  # per agent: draws in decided phases
    spent: list[int]  # per agent: draws in all accepted reports, including those of the phase in progress
    money: float | None  # cost of all agents' samples in accepted reports; null without prices, or for blinded readers
    planned: list[int]  # per agent: draws planned in the phase in progress
    ends: list[str]  # how each agent's question ended: decided, accepted, exhausted, blocked, cancelled or open
    rates: list[float] | None  # draws a day, if the study states them
    round_days: float
    delay: list[float]  # days until the outcome of a draw is known
    statuses: list[list[str]] | None  # [arm][agent]: chosen, open, ruled out, set aside or left
    dropped_in: Counts | None  # the phase that ruled the arm out or set it aside; 0 if none
    counts: Counts | None  # draws in accepted reports
    plan: Counts | None  # draws planned in the phase in progress
    by_arm: ByArm | None
    standing: RegretStanding | None = None  # null without a horizon


class Explained(Answer):
    """The policy's evidence after a phase. An arm is ruled out when its score reaches `line`.

    The means have the same intervals as in the findings after that phase.
    """

    mixed_means: Numbers
    low: Numbers
    high: Numbers
    score: Numbers
    line: float
    words: str  # what the score means


class DroppedArm(Answer):
    """An arm that a phase ruled out or set aside for an agent."""

    arm: str
    agent: str
    status: str  # its present status


class DecidedPhase(Answer):
    """The results of a decided phase: its draws and the arms that it dropped, with the policy's evidence."""

    phase: int
    opened_at: str
    closed_at: str
    samples: int
    drawn: list[int]  # per agent
    finished: bool
    dropped: int  # number of (arm, agent) pairs that the phase ruled out or set aside
    set_aside: int | None  # how many of these pairs were only set aside within the tolerance
    counts: Counts | None
    dropped_arms: list[DroppedArm] | None
    explanation: Explained | None


class History(Answer):
    """The results of every decided phase, oldest first."""

    study: str
    arms: list[str]
    agents: list[str]
    blinded: bool
    phases: list[DecidedPhase]


class Measured(Answer):
    """An estimate, its joint interval, which holds at every phase, and its fixed-sample interval; null without data."""

    estimate: float | None
    low: float | None
    high: float | None
    fixed_low: float | None
    fixed_high: float | None


class ArmFound(Answer):
    """The findings on an arm for an agent: its mixed mean, and its differences from the leader and from the control."""

    arm: str
    status: str  # chosen, open, ruled out, set aside or left
    dropped_in: int  # the phase that ruled the arm out or set it aside; 0 if none
    draws: int
    mean: Measured
    to_leader: Measured
    to_control: Measured | None


class AgentFound(Answer):
    """The findings for an agent: how its question ended, its candidate with the best estimate, and every arm."""

    agent: str
    end: str
    leader: str | None
    arms: list[ArmFound]


class ChangeFound(Answer):
    """The result of a test for differences that change between phases, for the pair of arms whose phases agree least.

    The test is not part of the guarantee.
    """

    p: float  # p value, Holm-adjusted over all pairs
    agent: str
    arm: str
    other: str
    words: str


class OutcomeArm(Answer):
    """The findings on a further outcome for one arm, in one agent's mix."""

    arm: str
    count: int  # people with this outcome at this agent
    mean: Measured
    to_control: Measured | None
    status: str | None  # for a guardrail: alarm, cleared or not cleared yet; otherwise null


class OutcomeAgent(Answer):
    """The findings on a further outcome for all arms, in one agent's mix."""

    agent: str
    arms: list[OutcomeArm]


class GuardedArm(Answer):
    """The status that a guardrail gives an arm, for all agents together."""

    arm: str
    status: str  # cleared, not cleared yet, proposed or stopped
    agents: list[str]  # the agents in whose mix the status is proven


class OutcomeFound(Answer):
    """The findings on a further outcome: a guardrail, or a secondary outcome, which decides nothing."""

    name: str
    role: str
    better: str
    level: float
    rates: bool
    margin: float | None
    limit: float | None
    delta: float | None
    words: str
    agents: list[OutcomeAgent]
    arms: list[GuardedArm]  # the arms that a guardrail watches, without the control; empty for a secondary outcome


class Findings(Answer):
    """Every mean and difference after a decided phase, with intervals that hold simultaneously at the `level`."""

    study: str
    stage: str
    phase: int  # the findings are those after this phase
    phases: int  # number of decided phases
    level: float
    control: str | None
    rates: bool  # rewards are 0 or 1, and means are shares
    words: str
    change: ChangeFound | None  # null until a pair of arms has two phases
    first: int  # index of the first agent in this answer
    agent_count: int
    agents: list[AgentFound]
    outcomes: list[OutcomeFound]  # the further outcomes, after the same phases


class WeightStep(Answer):
    """How robust an agent's answer is at one value on the axis of weights, and which arms have the best estimates."""

    value: float
    standing: str  # holds, proven, leads or other
    leaders: list[str]


class AgentSensitivity(Answer):
    """How an agent's answer, or its leading arms if it has no answer, depends on the weights."""

    agent: str
    arms: list[str]
    answered: bool  # whether these arms are the agent's answer, as in the certificate
    stated: float  # the value on the axis that stands for the study's own weights
    low: float | None  # lowest value of the range in which the answer holds for all agents and readers; null: no range
    high: float | None  # highest value of that range
    steps: list[WeightStep]


class Sensitivities(Answer):
    """How each agent's answer depends on the weights, from equal weights to the agent's own reward alone."""

    study: str
    phase: int  # number of decided phases on which this is based
    level: float
    axis: str  # what the values mean
    words: str  # what the standings mean
    proofs: bool  # false: estimates only, since proofs are not possible here
    first: int
    agent_count: int
    agents: list[AgentSensitivity]


class Act(Answer):
    """An act of a person on a study, or an event that delayed the study."""

    sequence: int
    at: str
    kind: str  # kind of the record in the log
    by: str
    words: str  # a sentence with the reason


class Flow(Answer):
    """Numbers of draws: per arm and agent, or per arm over all agents."""

    planned: list[Any]
    counted: list[Any]  # draws in decided phases, on which the answers are based
    undecided: list[Any]  # draws in reports of an undecided phase
    missing: list[Any]  # people whose outcome will never come
    corrected: list[Any]  # outcomes among those counted whose sums were corrected after the decision


class Conduct(Answer):
    """How a study was conducted: the flow of its draws, and who did what, when and why."""

    study: str
    arms: list[str]
    agents: list[str]  # the agents in this answer
    first: int
    agent_count: int
    ended_at: str | None
    flow: Flow  # [arm][agent]
    by_arm: Flow  # per arm, over all agents
    outside: list[int]  # per agent: people who came when nobody was needed, according to its reports
    outside_in_all: int
    voided_in_all: int  # assignments in decided phases that sites voided
    between: list[int]  # per agent: counted people whom it assigned while the phase before awaited outcomes
    between_in_all: int
    ahead: list[int]  # per agent: people whom it assigned for a phase that has not begun, or never will
    ahead_in_all: int
    unmasked: list[int]  # per agent: people of a masked study whose arm its site has seen, by its reports
    unmasked_in_all: int
    acts: list[Act]  # oldest first; if there are very many, the latest


class AgentAssignment(Answer):
    """An agent's planned draws in the current phase."""

    study: str
    agent: str
    stage: str
    reason: str
    phase: int
    plan: str | None  # digest of the current plan
    arms: list[str]
    draws: list[int] | None  # null if nothing is asked of this agent
    reported: bool
    frozen: bool
    rho: float | None  # for a private study, whose sites add noise to their sums; otherwise null
    closed_arms: list[str]  # no agent's candidates; an arm withdrawn in this phase may have fewer draws than planned
    between: list[int] | None  # per arm: people whom this agent assigned for the phase before it began; null if none
    most_ahead: int  # how many people it may assign for the next phase once this phase is full
    answer: list[str] | None  # a finished study's answer for this agent, if `show_answer` allows it


class TakenReport(Answer):
    """An accepted report with its receipt."""

    report: Report
    revision: int  # 0 as the agent sent it; higher after amendments
    at: str
    receipt: Receipt


class SaltedReport(TakenReport):
    """An accepted report with the salt of its record, for the agent itself and for readers of the log."""

    salt: str | None


class CorrectedReport(Answer):
    """A report as corrected after its phase was decided; the correction changes no decision."""

    report: Report
    reason: str
    sequence: int
    at: str


class ReportOfAgent(SaltedReport):
    """An agent's report that counts, its earlier revisions if it was amended, and corrections after the decision."""

    earlier: list[SaltedReport]
    corrections: list[CorrectedReport]


class Reports(Answer):
    """All reports that count in a phase."""

    study: str
    phase: int
    reports: list[TakenReport]


class Aside(Answer):
    """A quarantined report: it came after another report, or is held because the model rules out one of its means."""

    report: Report
    digest: str
    stands: str  # digest of the report that counted then; empty if there was none and this report was held
    why: str  # why it was held
    refused: str | None  # the reason if an administrator refused it
    held: bool  # whether it is held and still waits for an administrator
    beside: bool  # whether it waits while another report counts, as a site's correction does
    at: str
    sequence: int


class Quarantine(Answer):
    """Some quarantined reports, oldest first unless the query asks otherwise; `next` continues the list."""

    study: str
    quarantine: list[Aside]
    next: int | None


def _previewed(kind: type[Message]) -> type[Answer]:
    """Make the answer class of a kind of preview; the answer has the digest that confirms the preview."""
    words = (kind.__doc__ or "").splitlines()[0].rstrip(".")
    fields = {
        "__annotations__": {"preview": kind, "digest": Digest},
        "__doc__": f"{words}; send the `digest` as `preview` to confirm it.",
        "__module__": __name__,
    }
    made: type[Answer] = types.new_class(
        f"Previewed{kind.__name__.removesuffix('Preview')}", (Answer,), exec_body=lambda names: names.update(fields)
    )
    return made


# Kind of preview -> its answer class, which two acts may share.
PREVIEWED: dict[type[Message], type[Answer]] = {
    row.preview.kind: _previewed(row.preview.kind) for row in ACTS.values() if row.preview is not None
}


class Corrections(Answer):
    """All reports corrected after their phase was decided, and what the study would find with the corrections."""

    study: str
    corrections: list[Correction]
    with_corrections: dict[str, Any] | None  # as in a certificate; null without corrections


class Signatures(Answer):
    """The signatures in a study's log, in order."""

    study: str
    signatures: list[Signature]


class LogPage(Answer):
    """Some records of a log. `next` is the value of `after` with which the list continues; null at its end."""

    records: list[dict[str, Any]]  # in the form of the export
    next: int | None


class Verified(Answer):
    """The result of verifying a study's log and its tables."""

    study: str
    sound: bool
    problem: str | None  # the first flaw; null if the log is sound
    records: int
    phases: int  # number of decisions that were repeated
    stage: str
    head: str
    exact: bool  # every state agreed to the last bit
    certificate: str | None  # digest of the certificate
    signatures: tuple[Signature, ...]
    reads: tuple[Read, ...]  # reads of results while the study was running


class WantedPower(Answer):
    """The smallest budget with the wanted power if every gap is `gap`. If no budget has it, `reason` says why."""

    wanted: float
    gap: float
    max_samples: int | None = None
    power: float | None = None  # the power in the simulation
    standard_error: float | None = None  # standard error of that power
    studies: int | None = None  # number of simulated studies
    samples: float | None = None  # mean number of samples
    reason: str = ""


class Estimated(Answer):
    """The expected cost of a study. If simulating would take too long, `scenarios` is empty and `reason` says so."""

    study: str
    policy: str
    guarantee: str
    extent: str  # the planned number of looks and the largest number of samples, if known in advance; may be empty
    first_phase: int  # samples in the first phase
    scenarios: list[dict[str, Any]]  # gap, samples, rounds, per_agent, error_rate, power, studies, unfinished, alone
    reason: str
    warning: str = ""  # about a budget that decides less than half of the time
    budget: WantedPower | None = None  # if a power is wanted


class Forecast(Answer):
    """A forecast of what a study still needs. `state` is "none" (before the first decision), "computing" or "ready"."""

    study: str
    state: str
    reason: str = ""
    after_phase: int | None = None
    drawn: int | None = None
    bound: float | None = None  # the fewest samples that any policy needs if the estimated means are the true means
    bound_by_arm: list[float] | None = None
    bound_draws: list[list[float]] | None = None  # [arm][agent]
    total: dict[str, float] | None = None  # samples at the end: p10, p50, p90
    money: dict[str, float] | None = None  # with prices: spent, and at the end p10, p50, p90
    days_left: dict[str, float] | None = None  # with rates: p10, p50, p90
    regret_left: dict[str, float] | None = None  # with a horizon: likely regret of the draws to come
    rounds: dict[str, float] | None = None
    total_per_agent: list[float] | None = None
    continuations: int | None = None  # number of simulated continuations
    unfinished: int | None = None  # how many of them reached a limit


class TokenLine(Answer):
    """A token, shown without its secret."""

    kid: str
    role: str
    principal: str
    study: str | None
    agent: str | None
    created_at: str
    created_by: str
    revoked_at: str | None


class Tokens(Answer):
    """All tokens without their secrets, including revoked ones."""

    tokens: list[TokenLine]


class IssuedToken(TokenLine):
    """A new token, with its secret."""

    token: str


class RevokedToken(Answer):
    """A token that has been revoked."""

    kid: str
    principal: str
    revoked: bool


class SessionOpened(Answer):
    """A new session. Send it as `Authorization: Session <session>` until it expires."""

    session: str
    expires_at: str


class SessionEnd(Answer):
    """The result of signing out: whether there was a session to end."""

    ended: bool
