"""The question of a study after sites were lost, and the policy's state for it after the recorded phases.

A frozen agent leaves the mix: the other weights of every column that weighs it are normalised again, or an
administrator gives other weights. A frozen agent's own column stays as it was. If that column weighs a frozen agent
(usually itself), the question is dropped and the agent has *left*, unless weights are given for it too. The policy's
state is then computed again from all recorded phases, under the new weights.

The person who re-weighs may have seen the rewards, and may have tried any number of other weights on them. So each
question has a share of delta that was fixed before the study began. The shares of all questions to which the original
can be changed sum to at most 1 (`share_of_delta`). So the chance that *any* of them is ever answered wrongly is at most
delta, and so is the chance for the question that was picked. The original question has a delta of its own. So a study
that may be re-weighed at any time answers its last question wrongly with a chance of at most 2 delta.
`docs/changes.md` has the proof and says what this costs.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from parley.errors import InvalidInput
from parley.policies import Policy, State
from parley.problem import FloatArray, share_without
from parley.protocol.messages import StudyMessage, Weights
from parley.text.translation import Translatable, joined
from parley.totals import Totals
from parley.validation.checks import mixing_weights, real_array

DECIMALS = 6  # most decimals of a given weight
ROUNDING = 1e-12
LOSSES = 0.9  # share of delta for questions that only leave out lost sites; the remainder is for given weights
LEAST_SHARE = 1e-100  # weights with a smaller share of delta are refused
ASKED_ANEW = (
    "the question was changed and is now asked {how}. For every changed question, whatever was changed and why: "
    "{anew}. For the question in force at the end of the study, changed or not: {either}"
)
NUMBERS_ANEW = Translatable("these numbers are for the changed question")
OTHER_WEIGHTS = Translatable("with other weights")
BOTH_CHANGED, FEWER_ARMS = "with other weights and without {0}", "without {0}"


def not_reweighable(study: StudyMessage) -> str | None:
    """The reason why a study cannot be re-weighed while it runs, as a sentence; None if it can be."""
    if "site_counts" not in study.make_policy().supports or study.problem.horizon is not None:
        return Translatable("the guarantee of the policy {0} holds only for draws that it planned itself", study.policy)
    return None


def arms_fixed(study: StudyMessage) -> str | None:
    """The reason why no arm of a study can be opened or withdrawn, as a sentence; None if arms may change."""
    if "dormant" not in study.make_policy().supports:
        return Translatable(
            "the guarantee of the policy {0} holds only for the arms that it started with", study.policy
        )
    return None


def weights_without(
    study: StudyMessage, frozen: Iterable[str], given: Mapping[str, Sequence[float]] | None = None
) -> Weights:
    """Compute the weights of a study without its frozen agents; `given` columns replace computed columns.

    >>> weights = ((0.5, 0.4, 0.2), (0.1, 0.4, 0.2), (0.4, 0.2, 0.6))
    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x", "y", "z"), weights=weights, policy="evidence")
    >>> [[round(w, 3) for w in row] for row in weights_without(study, ["z"])]
    [[0.833, 0.5, 0.2], [0.167, 0.5, 0.2], [0.0, 0.0, 0.6]]
    """
    given = given or {}
    places = _places(study, frozen)
    weights = np.array(study.weights, dtype=np.float64)
    usual = _remaining(study, places)
    for column, agent in enumerate(study.agents):
        # A given column that equals the computed one asks the same question, and costs no share of delta.
        found = usual[column]
        if agent in given and not _same(asked := _given(study, agent, given[agent]), found):
            found = asked
        if found is None:
            raise InvalidInput(
                "weights",
                found=f"nothing left in the mix of {agent!r} without {', '.join(frozen)}",
                allowed="a column for it: whose rewards it asks about from now on",
            )
        weights[:, column] = found
    unknown = sorted(set(given) - set(study.agents))
    if unknown:
        raise InvalidInput("weights", found=f"a column for {unknown[0]!r}", allowed=", ".join(study.agents))
    return tuple(map(tuple, mixing_weights(weights).tolist()))


def _remaining(study: StudyMessage, places: list[int]) -> list[FloatArray | None]:
    """Every column of the weights without the rows at `places`, normalized; None for a column that has no other weight.

    The column of a lost agent, or of an agent that asks nothing, stays as it was.
    """
    weights, asks = np.array(study.weights, dtype=np.float64), study.problem.asks

    def without(own: int) -> FloatArray | None:
        column = weights[:, own]
        if own in places or not asks[own] or not column[places].any():
            return column
        rest = column.copy()
        rest[places] = 0.0
        return rest / rest.sum() if rest.any() else None

    return [without(own) for own in range(len(weights))]


def _same(one: FloatArray, other: FloatArray | None) -> bool:
    """Whether two columns are equal up to rounding and so ask the same question; False if `other` is None."""
    return other is not None and np.allclose(one, other, rtol=0, atol=ROUNDING)


def _given(study: StudyMessage, agent: str, column: Sequence[float]) -> FloatArray:
    count = len(study.agents)
    allowed = (
        f"{count} numbers of at least 0 with up to {DECIMALS} decimals that sum to 1, one for every agent's reward in "
        "its mix"
    )
    values = real_array("weights", column, allowed)
    if values.shape != (count,) or not np.isfinite(values).all() or (values < 0).any() or _decimals(values) is None:
        shown = ", ".join(f"{value:g}" for value in values.ravel()[:8])
        raise InvalidInput(f"weights of {agent}", found=f"[{shown}]", allowed=allowed)
    return values


def _decimals(column: FloatArray) -> int | None:
    """The number of decimals of a column's weights; None if they have too many, or do not sum to 1."""
    if abs(round(float(column.sum()), DECIMALS) - 1) > ROUNDING:
        return None
    exact = (d for d in range(DECIMALS + 1) if np.allclose(column, np.round(column, d), rtol=0, atol=ROUNDING))
    return next(exact, None)


def share_of_delta(
    study: StudyMessage, weights: Weights, frozen: Iterable[str], withdrawn: Collection[str] = ()
) -> float:
    """The share of delta that a question with these weights may spend. `study` is the study as created.

    `withdrawn` are the arms that the question leaves out. The original question has a delta of its own. All other
    questions divide a second delta of the same size among them. The share of each depends on its description: which
    agents were lost, which columns were given, and with how many decimals. A shorter description has a larger share.
    The description depends neither on data nor on how often anybody looked at them.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x", "y"), weights=((1, 0.5), (0, 0.5)), policy="wcpe")
    >>> share_of_delta(study, study.weights, [])
    1.0
    >>> round(share_of_delta(study, weights_without(study, ["x"], {}), ["x"]), 3)
    0.274
    >>> round(share_of_delta(study, weights_without(study, [], {"x": (0.5, 0.5)}), []), 5)
    0.0001
    >>> round(share_of_delta(study, study.weights, [], ["a"]), 3)
    0.152
    """
    if withdrawn:
        # The factors of all sets of withdrawn arms sum to a half, and the shares of all weights, with the original
        # ones, to at most 2. So all questions with fewer arms together spend at most one delta.
        return share_without(len(study.arms), len(withdrawn)) * share_of_delta(study, weights, frozen)
    if weights == study.weights:
        return 1.0
    places, count = _places(study, frozen), len(study.agents)
    now = np.array(weights, dtype=np.float64)
    given = [now[:, m] for m, column in enumerate(_remaining(study, places)) if not _same(now[:, m], column)]
    lost = math.comb(count, len(places))
    if not given:
        return LOSSES * _one_of_many(len(places)) / lost if places else 1.0
    # A factor of the share is 1 / `who`: how many distinct columns, which agents have a given one, and who has which.
    columns = {tuple(np.round(column, DECIMALS).tolist()) for column in given}
    who: int = count * math.comb(count, len(given)) * 2 ** len(columns) * len(columns) ** len(given)
    share: float = (1 - LOSSES) * _one_of_many(len(places) + 1) / (lost * who)
    for column in columns:
        decimals = _decimals(np.array(column))
        if decimals is None:
            raise InvalidInput("weights", found=f"{column[0]:.12g}, ...", allowed=f"up to {DECIMALS} decimals")
        share *= _one_of_many(decimals + 1) / math.comb(10**decimals + count - 1, count - 1)
    if share < LEAST_SHARE:
        raise InvalidInput(
            "weights",
            found=f"{len(columns)} columns of {count} numbers",
            allowed="fewer columns, or fewer decimals: the share of delta would be too small",
        )
    return share


def extent_of(study: StudyMessage, *, anew: bool) -> str:
    """A sentence on the looks and samples that a question may take; "" if the policy states no limits.

    With `anew`, the sentence says that these numbers are for the changed question.
    """
    said = study.make_policy().extent
    return joined("; ", [said, NUMBERS_ANEW]) if anew and said else said


def guarantee_under(
    created: StudyMessage, weights: Weights, opened: Collection[str] = (), withdrawn: Collection[str] = ()
) -> str:
    """The guarantee of a study's answers while these weights and arms are in force.

    >>> study = StudyMessage(name="s", arms=("a", "b"), agents=("x", "y"), weights=((1, 0.5), (0, 0.5)), policy="wcpe")
    >>> for sentence in guarantee_under(study, weights_without(study, ["x"])).split(". "):
    ...     print(sentence)
    the question was changed and is now asked with other weights
    For every changed question, whatever was changed and why: all answers right with probability at least 0.9
    For the question in force at the end of the study, changed or not: all answers right with probability at least 0.8
    """
    policy, delta = created.make_policy(), created.problem.delta
    guarantee = policy.guarantee
    if (withdrawn or weights != created.weights) and policy.bounds_errors:
        # One delta each for the original question, for other weights, and for fewer arms.
        either = policy.claim(max(1 - (3 if withdrawn else 2) * delta, 0.0))
        how = OTHER_WEIGHTS
        if withdrawn:
            template = FEWER_ARMS if weights == created.weights else BOTH_CHANGED
            how = Translatable(template, ", ".join(sorted(withdrawn)))
        guarantee = Translatable(ASKED_ANEW, how=how, anew=guarantee, either=either)
    reason = Translatable(
        ", if the reason for opening {0} has nothing to do with the rewards of this study", ", ".join(sorted(opened))
    )
    return guarantee + (reason if opened else "")


def _one_of_many(j: int) -> float:
    """The j-th term of a series of shares that sums to 1."""
    return 6 / (math.pi * j) ** 2


def left_by(study: StudyMessage, weights: Weights, frozen: Iterable[str]) -> tuple[str, ...]:
    """The frozen agents whose own questions are dropped under new weights.

    Raises if another agent's mix would still weigh a frozen agent, or if no question would be left.
    """
    frozen = set(frozen)
    matrix, places = np.array(weights), _places(study, frozen)
    waits = np.asarray(matrix[places].any(axis=0)) & study.problem.asks
    for column, agent in enumerate(study.agents):
        if waits[column] and agent not in frozen:
            raise InvalidInput(
                f"weights of {agent}",
                found=f"weight on {study.agents[places[int(matrix[places, column].argmax())]]!r}, which is frozen",
                allowed="0 for frozen agents: they draw no more. Thaw it first, or weigh others",
            )
    left = tuple(agent for column, agent in enumerate(study.agents) if waits[column])
    if len(left) == len(study.problem.askers):
        raise InvalidInput("agents", found="all of them frozen", allowed="at least one agent that is not frozen")
    return left


def _places(study: StudyMessage, names: Iterable[str]) -> list[int]:
    return sorted(study.agents.index(name) for name in names)


def ask_anew(
    study: StudyMessage,
    weights: Weights,
    delta: float,
    opened: Collection[str] = (),
    withdrawn: Collection[str] = (),
) -> StudyMessage:
    """Copy the study as created, with other weights or arms and with the `delta` of that question.

    The copy is checked like a new study.
    """
    closed = (set(study.problem.dormant) - set(opened)) | set(withdrawn)
    return study.asking(weights=weights, delta=delta, dormant=sorted(closed))


def folded(policy: Policy, past: Sequence[Totals]) -> list[State]:
    """The policy's initial state and its state after every recorded phase, as if its question had always been asked.

    Bets stay fair in such a replay: the bets of a phase are made from the state before it, so they cannot depend on
    its rewards, and its number of draws was fixed before the phase, by whatever rule.
    """
    states = [policy.start(past[0].counts.shape[:-2] if past else ())]
    for totals in past:
        states.append(policy.update(states[-1], totals))
    return states
