"""What the API answers: handlers return them, OpenAPI and docs/api.md list them, pages read them.

A field is a key of the JSON object, with the same name. What an answer says arm by arm is null for blinded readers
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
    """The process runs."""

    status: str
    version: str


class Ready(Answer):
    """A write would be durable now."""

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
    """A study in a line. For readers who may not see the data, `sequence` and `head` are null."""

    id: str
    name: str
    policy: str
    arms: int  # how many
    agents: int
    questions: int  # of the agents, those that only ask: nobody draws there
    stage: str
    reason: str  # why it is paused or cancelled
    phase: int
    awaited: int  # reports still missing in the phase in progress
    samples: int  # in accepted reports
    created_at: str
    opened_at: str  # when the phase in progress began
    version: str  # changes with every event of the study, and says nothing else
    sequence: int | None  # of the log
    head: str | None
    digest: str  # of the study's document, with the weights and arms in force


class ListedStudy(StudyLine):
    """A study in the list."""

    asked: int  # agents that the phase in progress asks
    reported: int  # of them


class Studies(Answer):
    """The studies that a token reaches; `next` continues the list, `damaged` are ids whose rows cannot be read."""

    studies: list[ListedStudy]
    next: str | None
    version: str
    damaged: list[str]


class Reported(Answer):
    """An agent whose report is in."""

    agent: str
    at: str


class Awaited(Answer):
    """An agent that the study waits for; how many people it has recruited and how many outcomes it has, if it says."""

    agent: str
    since: str
    recruited: int | None = None
    observed: int | None = None
    held: str | None = None  # why its report waits for an administrator; not told to blinded readers
    objection: str | None = None  # why the site draws or sends nothing: what its own policy allows instead
    unmasked: int | None = None  # people of a masked study whose arm was shown at the site, if any


class FrozenAgent(Answer):
    """An agent that is asked for nothing more."""

    agent: str
    phase: int
    reason: str
    at: str


class ReweighedStudy(Answer):
    """The last re-weighing: when the question was asked without frozen agents."""

    phase: int  # in progress then; earlier phases were decided under other weights
    reason: str
    left: list[str]  # whose own question rests while they are frozen


class ChangedArm(Answer):
    """An arm that was opened or withdrawn in mid-study, the last time."""

    arm: str
    open: bool  # it was opened; else withdrawn
    phase: int  # in progress then
    reason: str
    at: str


class StudyStatus(StudyLine):
    """The stage of a study, and which agents it waits for and since when."""

    arm_names: list[str]
    agent_names: list[str]
    settings: dict[str, Any]  # what the study asks for; its lists and matrices stand in the document only
    descriptions: dict[str, str]  # key of the study file -> a sentence, for each setting that is not the default
    guarantee: str
    extent: str  # how many looks are planned and samples taken at most, as far as that is known before; or empty
    rates: bool  # rewards are 0 or 1: means are shown in per cent
    warnings: list[str]  # where the data contradict what the study assumes; nothing for blinded readers
    asked: int
    reported: list[Reported]
    missing: list[Awaited]
    frozen: list[FrozenAgent]
    end: str  # how it ended, the worst of its agents': decided, accepted, exhausted, blocked, cancelled; or open
    reweighed: ReweighedStudy | None
    closed_arms: list[str]  # dormant or withdrawn: nobody's candidates
    changed_arms: list[ChangedArm]
    outcomes: list[str]  # beside the primary one, by name


Counts = list[list[int]]  # [arm][agent]
Numbers = list[list[float | None]]  # [arm][agent]; null where not finite


class ByArm(Answer):
    """Over all agents: of how many an arm has each status, and its draws."""

    statuses: dict[str, list[int]]  # a status -> the agents for whom the arm has it, arm by arm
    drawn: list[int]  # in decided phases
    spent: list[int]  # in accepted reports, those of the phase in progress too


class EstimatedRegret(Answer):
    """Of all draws so far and all agents, by present estimates; two standard errors to either side."""

    estimate: float
    low: float
    high: float


class RegretStanding(Answer):
    """What is played until a horizon; of blinded readers and before any data, only how long."""

    horizon: int | str
    left: list[int]  # draws of each agent until the horizon
    regret: EstimatedRegret | None = None
    agents: list[float] | None = None  # each agent's part of it
    leaders: list[str] | None = None  # what each agent plays
    exploring: list[int] | None = None  # draws of the phase in progress that are not the leader's


class Board(Answer):
    """Arm x agent: what may be said of every arm of every agent, and since which phase."""

    study: str
    stage: str
    phases: int  # decided so far
    blinded: bool
    arms: list[str]
    agents: list[str]  # those told of
    first: int  # the place of the first of them
    agent_count: int
    top: int
    open_pairs: int
    decided_agents: int
    candidates: list[int]  # arms that an agent still has
    drawn: list[int]  # in decided phases
    spent: list[int]  # in accepted reports, those of the phase in progress too
    money: float | None  # what all samples in accepted reports cost, of all agents; null without prices, or blinded
    planned: list[int]  # in the phase in progress
    ends: list[str]  # how an agent's question ended: decided, accepted, exhausted, blocked, cancelled or open
    rates: list[float] | None  # draws a day, where the study states them
    round_days: float
    delay: list[float]  # days after which the outcome of a draw is known
    statuses: list[list[str]] | None  # of arms: chosen, open, ruled out, set aside or left
    dropped_in: Counts | None  # the phase that ruled it out or set it aside, else 0
    counts: Counts | None  # in accepted reports
    plan: Counts | None
    by_arm: ByArm | None
    standing: RegretStanding | None = None  # with a horizon


class Explained(Answer):
    """The policy's case after a phase: an arm is out when its score passes the line. The intervals of the means are
    those of the findings after that phase.
    """

    mixed_means: Numbers
    low: Numbers
    high: Numbers
    score: Numbers
    line: float
    words: str  # what the score is


class DroppedArm(Answer):
    """An arm that a phase ruled out or set aside for an agent."""

    arm: str
    agent: str
    status: str  # as it is now


class DecidedPhase(Answer):
    """What a decided phase brought."""

    phase: int
    opened_at: str
    closed_at: str
    samples: int
    drawn: list[int]  # per agent
    finished: bool
    dropped: int  # pairs of arm and agent that it ruled out or set aside
    set_aside: int | None  # of them, those that were only set aside within the tolerance
    counts: Counts | None
    dropped_arms: list[DroppedArm] | None
    explanation: Explained | None


class History(Answer):
    """What every decided phase brought, oldest first."""

    study: str
    arms: list[str]
    agents: list[str]
    blinded: bool
    phases: list[DecidedPhase]


class Measured(Answer):
    """An estimate, the interval that holds jointly and at every phase, and the usual one; null without data."""

    estimate: float | None
    low: float | None
    high: float | None
    fixed_low: float | None
    fixed_high: float | None


class ArmFound(Answer):
    """An arm of an agent: its mixed mean, and how it differs from the leader and from the control."""

    arm: str
    status: str  # chosen, open, ruled out, set aside or left
    dropped_in: int  # the phase that ruled it out or set it aside, else 0
    draws: int
    mean: Measured
    to_leader: Measured
    to_control: Measured | None


class AgentFound(Answer):
    """An agent: how its question ended, the best estimate among its candidates, and every arm."""

    agent: str
    end: str
    leader: str | None
    arms: list[ArmFound]


class ChangeFound(Answer):
    """Whether differences change from phase to phase: the pair whose phases agree least. No part of the guarantee."""

    p: float  # Holm's, over all pairs
    agent: str
    arm: str
    other: str
    words: str


class OutcomeArm(Answer):
    """An arm by a further outcome, for one agent's mix."""

    arm: str
    count: int  # people with this outcome, at this agent
    mean: Measured
    to_control: Measured | None
    status: str | None  # of a guardrail: alarm, cleared or not cleared yet


class OutcomeAgent(Answer):
    """The arms by a further outcome, for an agent's mix."""

    agent: str
    arms: list[OutcomeArm]


class GuardedArm(Answer):
    """Where an arm stands with a guardrail, for all agents."""

    arm: str
    status: str  # cleared, not cleared yet, proposed or stopped
    agents: list[str]  # in whose mix that is proven


class OutcomeFound(Answer):
    """A further outcome: a guardrail, or a secondary one, by which nothing is decided."""

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
    arms: list[GuardedArm]  # of a guardrail; the control is none of them


class Findings(Answer):
    """Every mean and difference after a decided phase, with intervals that hold all together at the `level`."""

    study: str
    stage: str
    phase: int  # after how many decided phases
    phases: int  # how many there are
    level: float
    control: str | None
    rates: bool  # rewards are 0 or 1, and means are shares
    words: str
    change: ChangeFound | None  # null before a pair of arms has two phases
    first: int  # the place of the first agent told of
    agent_count: int
    agents: list[AgentFound]
    outcomes: list[OutcomeFound]  # beside the primary one, after as many phases


class WeightStep(Answer):
    """What other weights leave of an agent's answer, and the best estimates under them."""

    value: float
    standing: str  # holds, proven, leads or other
    leaders: list[str]


class AgentSensitivity(Answer):
    """An agent's answer, or its best estimates where it has none, under other weights."""

    agent: str
    arms: list[str]
    answered: bool  # whether they are its answer, as the certificate has it
    stated: float  # where the study's own weights are
    low: float | None  # from here to `high` the answer holds, for all agents and readers at once; null: nowhere
    high: float | None
    steps: list[WeightStep]


class Sensitivities(Answer):
    """For which weights each answer stays, from equal weights to the agent's own reward alone."""

    study: str
    phase: int  # after how many decided phases
    level: float
    axis: str  # what the values are
    words: str  # what the standings mean
    proofs: bool  # false: the policy's guarantee is for its own draws, or the study is too large: estimates only
    first: int
    agent_count: int
    agents: list[AgentSensitivity]


class Act(Answer):
    """What a person did to a study, or what held it up."""

    sequence: int
    at: str
    kind: str  # of the record in the log
    by: str
    words: str  # what it says, with the reason


class Flow(Answer):
    """Draws: per arm and agent, or per arm over all agents."""

    planned: list[Any]
    counted: list[Any]  # in decided phases: what the answers rest on
    undecided: list[Any]  # in reports of a phase that is not decided
    missing: list[Any]  # people of whom no outcome will come
    corrected: list[Any]  # of those counted, outcomes in sums that were corrected after the decision


class Conduct(Answer):
    """How a study was conducted: the flow of its draws, of some agents and in all, and who did what, when and why."""

    study: str
    arms: list[str]
    agents: list[str]  # those told of
    first: int
    agent_count: int
    ended_at: str | None
    flow: Flow  # [arm][agent]
    by_arm: Flow  # of all agents
    outside: list[int]  # per agent: people who came when nobody was needed, as far as its reports say
    outside_in_all: int
    voided_in_all: int  # assignments of decided phases that sites voided
    acts: list[Act]  # oldest first; of very many, the latest


class AgentAssignment(Answer):
    """What an agent is asked to draw now."""

    study: str
    agent: str
    stage: str
    reason: str
    phase: int
    plan: str | None  # digest of the plan in force
    arms: list[str]
    draws: list[int] | None  # null: nothing is asked of this agent
    reported: bool
    frozen: bool
    rho: float | None  # of a private study: sums leave the site with noise
    closed_arms: list[str]  # nobody's candidates; of one that was withdrawn in this phase, fewer draws will do
    between: list[int] | None  # per arm: people whom this agent assigned before the phase, for it; null: nobody
    most_ahead: int  # how many it may assign for the next phase once this one has its people
    answer: list[str] | None  # what a finished study found for this agent, where `show_answer` lets it see it


class TakenReport(Answer):
    """A report that was taken, with its receipt."""

    report: Report
    revision: int  # 0 as the agent sent it, later ones by amendment
    at: str
    receipt: Receipt


class SaltedReport(TakenReport):
    """With the salt of its record, for the agent itself and for those who may read the log."""

    salt: str | None


class CorrectedReport(Answer):
    """A report as it was put right after its phase was decided; nothing is decided by it."""

    report: Report
    reason: str
    sequence: int
    at: str


class ReportOfAgent(SaltedReport):
    """The report that counts, earlier revisions if it was amended, and corrections after the phase was decided."""

    earlier: list[SaltedReport]
    corrections: list[CorrectedReport]


class Reports(Answer):
    """Every report of a phase that counts."""

    study: str
    phase: int
    reports: list[TakenReport]


class Aside(Answer):
    """A report that came for a taken place, or one that is held: the stated model rules out a mean of it."""

    report: Report
    digest: str
    stands: str  # digest of the one that stood as it came; empty: none did, and it was held
    why: str  # it was held
    refused: str | None  # the reason with which an administrator refused it
    held: bool  # it still waits for an administrator
    at: str
    sequence: int


class Quarantine(Answer):
    """Some of what was put aside, oldest first; `next` continues."""

    study: str
    quarantine: list[Aside]
    next: int | None


def _previewed(kind: type[Message]) -> type[Answer]:
    """The answer of a preview: with the digest that confirms it."""
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


# What a preview is -> its answer; two acts may share one.
PREVIEWED: dict[type[Message], type[Answer]] = {
    row.preview.kind: _previewed(row.preview.kind) for row in ACTS.values() if row.preview is not None
}


class Corrections(Answer):
    """Every report that was corrected after its phase was decided, and how the study would read with them."""

    study: str
    corrections: list[Correction]
    with_corrections: dict[str, Any] | None  # as a certificate has it; null without corrections


class Signatures(Answer):
    """The signatures in a study's log, in its order."""

    study: str
    signatures: list[Signature]


class LogPage(Answer):
    """Some records of a log; `next` is what `after` continues from."""

    records: list[dict[str, Any]]  # as they are exported
    next: int | None


class Verified(Answer):
    """What a verification found."""

    study: str
    sound: bool
    problem: str | None
    records: int
    phases: int  # decisions taken again
    stage: str
    head: str
    exact: bool  # every state agreed to the last bit
    certificate: str | None  # its digest
    signatures: tuple[Signature, ...]
    reads: tuple[Read, ...]  # of results, while the study went on


class WantedPower(Answer):
    """The smallest budget that has a wanted power if every gap is `gap`; null, and the reason, where there is none."""

    wanted: float
    gap: float
    max_samples: int | None = None
    power: float | None = None  # that it has in the simulation
    standard_error: float | None = None  # of that power
    studies: int | None = None  # simulated
    samples: float | None = None  # mean
    reason: str = ""


class Estimated(Answer):
    """What a study would cost; without scenarios where simulating would take too long, and then the reason."""

    study: str
    policy: str
    guarantee: str
    extent: str  # how many looks are planned and samples taken at most, as far as that is known before; or empty
    first_phase: int  # samples
    scenarios: list[dict[str, Any]]  # gap, samples, rounds, per_agent, error_rate, power, studies, unfinished, alone
    reason: str
    warning: str = ""  # of a budget that decides less than half of the time
    budget: WantedPower | None = None  # if a power is wanted


class Forecast(Answer):
    """What is likely left. `state`: none (before the first decision), computing (ask again) or ready."""

    study: str
    state: str
    reason: str = ""
    after_phase: int | None = None
    drawn: int | None = None
    bound: float | None = None  # what no policy could do without, were the estimated means the true ones
    bound_by_arm: list[float] | None = None
    bound_draws: list[list[float]] | None = None  # [arm][agent]
    total: dict[str, float] | None = None  # samples at the end: p10, p50, p90
    money: dict[str, float] | None = None  # with prices: spent, and at the end p10, p50, p90
    days_left: dict[str, float] | None = None  # with rates: p10, p50, p90
    regret_left: dict[str, float] | None = None  # with a horizon: what draws to come are likely to cost
    rounds: dict[str, float] | None = None
    total_per_agent: list[float] | None = None
    continuations: int | None = None  # simulated
    unfinished: int | None = None  # of them stopped by a cap


class TokenLine(Answer):
    """A token as it may be shown."""

    kid: str
    role: str
    principal: str
    study: str | None
    agent: str | None
    created_at: str
    created_by: str
    revoked_at: str | None


class Tokens(Answer):
    """Every token without its secret, revoked ones too."""

    tokens: list[TokenLine]


class IssuedToken(TokenLine):
    """A new token, with its secret."""

    token: str


class RevokedToken(Answer):
    """A token that opens nothing any more."""

    kid: str
    principal: str
    revoked: bool


class SessionOpened(Answer):
    """A session, to be sent as `Authorization: Session <session>` until it expires."""

    session: str
    expires_at: str


class SessionEnd(Answer):
    """Whether there was a session to end."""

    ended: bool
