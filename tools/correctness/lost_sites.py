"""Error rates of the new question after a site is lost in a random phase of a near-tie and the others are re-weighed.

`python -m tools.correctness lost-sites` runs every cell and rewrites the table in docs/appendix/lost-sites.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from tools.correctness.common import APPENDIX, SEED
from tools.correctness.near_ties import MIX, NOISES, allowance
from tools.pages import fill, table

from parley.policies import Policy, State
from parley.problem import BoolArray, Instance
from parley.protocol.lost_sites import Weights, ask_anew, folded, left_by, share_of_delta, weights_without
from parley.protocol.messages import StudyMessage
from parley.simulation import make_environment
from parley.totals import Totals

PHASES = 12
LATEST = 6  # the site is lost in one of this many first phases


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Two arms that almost tie in the new question, and the site that is lost."""

    weights: Sequence[Sequence[float]]
    lost: int
    given: Mapping[str, Sequence[float]] = field(default_factory=dict)
    against: float = 0.0  # lead of the second arm at the lost site
    noise: str = "gaussian"
    policy: str = "evidence"
    delta: float = 0.1

    @property
    def study(self) -> StudyMessage:
        agents = tuple(f"agent {n + 1}" for n in range(len(self.weights)))
        return StudyMessage(
            name="lost", arms=("first", "second"), agents=agents, weights=tuple(map(tuple, self.weights)),
            noise=NOISES[self.noise].model.document(), policy=self.policy, delta=self.delta,
        )  # fmt: skip

    def instance(self, study: StudyMessage) -> Instance:
        world = NOISES[self.noise]
        means = np.full(study.problem.shape, world.level)
        means[0] += world.gap
        means[1, self.lost] += self.against
        return Instance(problem=study.problem, means=means, scale=list(world.scale[: len(self.weights)]) or None)


def lost_policy(study: StudyMessage, weights: Weights, lost: Sequence[str], *, all_of_delta: bool = False) -> Policy:
    """The policy of a re-weighed trial; `all_of_delta` gives every question the whole delta, which is a flaw."""
    left = left_by(study, weights, lost)
    share = 1.0 if all_of_delta else share_of_delta(study, weights, lost)
    policy = ask_anew(study, weights, study.problem.delta * share).make_policy()
    places = {name: place for place, name in enumerate(study.agents)}
    return replace(
        policy, idle=tuple(sorted(places[name] for name in lost)), unasked=tuple(sorted(places[name] for name in left))
    )


def wrong(policy: Policy, state: State) -> BoolArray:
    """`(replication,)`: whether an agent that asks has ruled out its best arm, which is the first."""
    asked = [m for m in range(policy.problem.agent_count) if m not in policy.unasked]
    return np.asarray((~state.active[:, 0, asked]).any(axis=-1))


def lose(loss: Loss, how: str, *, replications: int, seed: int) -> float:
    """How often an agent has ruled out its best arm in the question that is in force at the end."""
    study, generator = loss.study, np.random.default_rng([seed, len(how)])
    draw = make_environment(loss.instance(study))
    if how in HOWS[2:]:
        return _any_question(loss, replications, generator, all_of_delta=how == HOWS[3])
    errors = []
    name = study.agents[loss.lost]
    for phase in range(1, LATEST + 1):
        size = replications // LATEST
        policy = study.make_policy()
        states, past = [policy.start((size,))], []
        for _ in range(phase):
            past.append(draw(generator, policy.plan(states[-1])))
            states.append(policy.update(states[-1], past[-1]))
        anew = lost_policy(study, weights_without(study, [name], loss.given), [name])
        state = states[-1] if how == "from the old state" else folded(anew, past)[-1]
        for _ in range(PHASES - phase):
            state = anew.update(state, draw(generator, anew.plan(state)))
        errors.append(wrong(anew, state).mean())
    return float(np.mean(errors))


def _any_question(loss: Loss, replications: int, generator: np.random.Generator, *, all_of_delta: bool) -> float:
    """How often a question is answered wrongly if somebody sees all rewards and tries to leave out any set of sites."""
    study = loss.study
    draw, policy = make_environment(loss.instance(study)), study.make_policy()
    sets = [lost for size in range(1, len(study.agents)) for lost in combinations(study.agents, size)]
    others = [lost_policy(study, weights_without(study, lost), lost, all_of_delta=all_of_delta) for lost in sets]
    every = [policy, *others]
    states = [each.start((replications,)) for each in every]
    found = np.zeros(replications, dtype=np.bool_)
    for _ in range(PHASES):
        totals: Totals = draw(generator, policy.plan(states[0]))
        states = [each.update(state, totals) for each, state in zip(every, states, strict=True)]
        found |= np.any([wrong(each, state) for each, state in zip(others, states[1:], strict=True)], axis=0)
    return float(found.mean())


ONE = [[0.6, 0.6], [0.4, 0.4]]  # both ask the same; without the second site, both ask about the first
ALL = {"agent 1": (1.0, 0.0), "agent 2": (1.0, 0.0)}
HOWS = ("re-weighed", "from the old state", "the worst of all", "the worst of all, delta for each")
CELLS: dict[str, tuple[Loss, int]] = {
    "one question": (Loss(weights=ONE, lost=1, given=ALL), 60_000),
    "three agents": (Loss(weights=MIX, lost=1), 30_000),
    "six sites, one question": (Loss(weights=np.full((6, 6), 1 / 6).tolist(), lost=5), 12_000),
    "the lost site disagreed": (Loss(weights=ONE, lost=1, given=ALL, against=0.5), 60_000),
    "unknown scale": (Loss(weights=ONE, lost=1, given=ALL, noise="unknown, shared"), 30_000),
    "rates near 0.1": (Loss(weights=ONE, lost=1, given=ALL, noise="binary 0.1"), 12_000),
    "three agents, W-CPE": (Loss(weights=MIX, lost=1, policy="wcpe"), 3_000),
}
PAGE = APPENDIX / "lost-sites.md"


def lost_sites(share: float = 1.0) -> bool:
    """Run every cell and rewrite the page; returns whether the rule stays below delta and both flaws do not."""
    lines, good, caught = [], True, {HOWS[1]: False, HOWS[3]: False}
    for name, (loss, full) in CELLS.items():
        replications = max(600, round(full * share))
        row = [name, loss.policy, f"{replications:,}"]
        for how in HOWS:
            if how in HOWS[2:] and loss.against:  # the right answer depends on which sites are kept
                row.append("")
                continue
            rate = lose(loss, how, replications=replications, seed=SEED)
            row.append(f"{rate:.4f}")
            if how not in caught:
                good &= rate <= allowance(loss.delta, replications)
            else:
                caught[how] |= rate > allowance(loss.delta, replications)
        lines.append(row)
        print(" | ".join(row), flush=True)
    shown = table(("near-tie", "policy", "replications", *HOWS), lines)
    fill(PAGE, "errors", shown)
    return good and all(caught.values())
