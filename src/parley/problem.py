"""`Problem` is what is known in advance; `Instance` adds the true means, which only nature knows.

Arrays are `(..., arm, agent)`; `weights[n, m]` is the weight of agent n's reward in agent m's mixed reward, so columns
sum to 1 and `mixed_means = means @ weights` (paper, Section 1; the paper's sentence above Algorithm 1 transposes W by
mistake).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from parley.covariates import LAWS, Covariate, CovariateTruth
from parley.errors import InvalidInput, TiedArms, UnknownName
from parley.outcomes import Outcome, checked_outcomes, checked_words
from parley.questions import stated_step
from parley.rewards import Gaussian, RewardModel
from parley.rewards.adjusted import MOST_LEFT, adjusted_model
from parley.rewards.history import History
from parley.rewards.scales import checked_scale, fitting
from parley.settings import SETTINGS, StudySettings
from parley.system.once import once
from parley.text.formatting import plural, size_text
from parley.text.tabular import Columns, Picture, Tabular, cells
from parley.validation.checks import (
    LARGEST_SCALE,
    BoolArray,
    FloatArray,
    IntArray,
    mixing_weights,
    names,
    number,
    real_array,
    real_matrix,
)

__all__ = ["BoolArray", "Drift", "FloatArray", "Instance", "IntArray", "Problem", "top_gaps"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem(Tabular, StudySettings):
    """K arms, M agents, the weights that mix rewards, and the task: find each agent's top N, with error at most delta.

    `parley.settings` has a row for each setting: `delta`, `top`, `largest_gap`, `minimum_cell`, ...

    >>> problem = Problem(arms=3, weights=[[0.8, 0.3], [0.2, 0.7]], delta=0.1)
    >>> problem.arm_count, problem.agent_count, problem.agents
    (3, 2, ('agent 1', 'agent 2'))
    >>> problem
    <Problem: 3 arms, 2 agents, delta = 0.1, top 1, gaussian rewards>

    As a data frame, a problem is the table of its weights, with one row for each pair of an agent and a mix.
    """

    arms: tuple[str, ...]  # may be given as a number of arms, or any sequence of names
    weights: FloatArray  # may be given as any nested sequence of numbers
    agents: tuple[str, ...] = ()  # "agent 1", "agent 2", ... unless given
    noise: RewardModel = field(default_factory=Gaussian)  # reward model of the primary outcome, as sites report it
    outcomes: tuple[Outcome, ...] = ()  # further outcomes; a person's privacy budget is divided over all outcomes
    adjustment: Covariate | None = field(default=None, init=False)  # how a covariate adjusts the primary outcome

    def __post_init__(self) -> None:
        weights = mixing_weights(self.weights)
        weights.setflags(write=False)
        arms = names("arms", self.arms, "arm")
        agents = names("agents", self.agents or len(weights), "agent")
        if len(arms) < 2:
            raise InvalidInput("arms", found=len(arms), allowed="at least 2 arms: with one there is nothing to find")
        if len(agents) != len(weights):
            raise InvalidInput(
                "weights",
                found=f"a matrix of {len(weights)} x {len(weights)} for {plural(len(agents), 'agent')}",
                allowed=f"{len(agents)} x {len(agents)}",
            )
        for name, value in {"weights": weights, "arms": arms, "agents": agents}.items():
            object.__setattr__(self, name, value)
        self._check_settings(arms, agents)
        self._check_roles()
        self._check_outcomes()
        (self.noise.outcome or self.noise).check_shape(self.shape)
        self._check_rates()
        self._check_between()

    def _check_between(self) -> None:
        """Check that `between`, the setting for people who come between phases, agrees with the other settings."""
        if self.between == "leading" and self.kits:
            # Everybody outside the study gets the leading arm, so unmasking one such person would reveal which arm
            # leads.
            allowed = '"outside" or "assign" with sites.kits: people on the leading arm would tell which one it is'
            raise InvalidInput("sites.between", found='"leading"', allowed=allowed)
        if self.between != "assign":
            if self.most_between != SETTINGS["most_between"].default_value:
                allowed = 'nothing, unless sites.between is "assign"'
                raise InvalidInput("sites.most_between", found=self.most_between, allowed=allowed)
            return
        if self.rho is not None:
            # Privacy would hold, since each person is still in one release only. But each stratum gets its own noise,
            # and the plan, shortened by the people already assigned, would promise more precision than both strata
            # together give.
            allowed = '"outside" or "leading" with privacy.rho: two groups have twice the noise of one'
            raise InvalidInput("sites.between", found='"assign"', allowed=allowed)

    def _check_outcomes(self) -> None:
        outcomes = checked_outcomes(self.outcomes) if self.outcomes else ()
        for outcome in outcomes:
            outcome.check_problem(self.control, self.dormant, self.shape)
        each = self.rho_each
        private = tuple(replace(outcome, noise=outcome.noise.private(each)) for outcome in outcomes)
        object.__setattr__(self, "outcomes", private)
        stated = self.noise.outcome or self.noise
        if self.outcome_words:
            object.__setattr__(self, "outcome_words", checked_words("sites.words", self.outcome_words, stated))
        rule = self._covariate_rule(stated)
        object.__setattr__(self, "adjustment", rule)
        # Sites report adjusted outcomes. So privacy noise is added to these, and is scaled to their range.
        adjusted = stated if rule is None else self._adjusted(stated, rule)
        object.__setattr__(self, "noise", adjusted.private(each))

    def _covariate_rule(self, outcomes: RewardModel) -> Covariate | None:
        """The rule by which sites adjust outcomes for the covariate; None without a covariate.

        Raises if the rule does not suit the outcomes.
        """
        if self.covariate is None:
            return None
        ends, center, theta = self.covariate_range, self.covariate_center, self.covariate_theta
        if outcomes.in_range and ends is None and outcomes.adjusted_form != "normal":
            allowed = "[low, high], since rewards are in a range: an adjusted one is in a wider range then"
            raise InvalidInput("covariate.range", found="nothing", allowed=allowed)
        if self.rho is not None and theta is None:
            allowed = "a number from history, with privacy.rho: a slope from outcomes would be a second release of them"
            raise InvalidInput("covariate.theta", found="nothing", allowed=allowed)
        if theta is not None and ends is None and center is None:
            allowed = "a number beside covariate.theta, or covariate.range"
            raise InvalidInput("covariate.center", found="nothing", allowed=allowed)
        if ends is not None and center is not None and not ends[0] <= center <= ends[1]:
            raise InvalidInput("covariate.center", found=center, allowed=f"a number from {ends[0]:g} to {ends[1]:g}")
        largest = self.covariate_largest_theta
        if largest is None:
            low, high = outcomes.ends
            largest = (high - low) / (ends[1] - ends[0]) if outcomes.in_range and ends is not None else math.inf
        return Covariate(
            name=self.covariate,
            center=center,
            range=None if ends is None else (ends[0], ends[1]),
            theta=theta,
            largest=largest,
        )

    def _adjusted(self, outcomes: RewardModel, rule: Covariate) -> RewardModel:
        """The reward model of adjusted outcomes. If the slope is stated, it adjusts the first phase too."""
        left = 1.0 if rule.learns else min(1 - self.covariate_correlation**2, MOST_LEFT)
        return adjusted_model(outcomes, rule.moves, squares=self.rho is None, first_left=left)

    def _check_roles(self) -> None:
        """Check the agents that only ask or only draw, and the steps of weights in doubt.

        An agent that asks nothing gets a copy of the first question: a copy costs no draws and no share of delta, so no
        other code has to know who asks.
        """
        if not (self.asks_only or self.draws_only or self.weight_steps or self.weight_refine):
            return
        if self.horizon is not None:
            found = f"{(self.asks_only + self.draws_only + self.weight_steps)[0]!r} in a study with a horizon"
            raise InvalidInput("questions", found=found, allowed="none there: everybody plays for its own question")
        weighed = np.flatnonzero(self.weights.any(axis=1) & ~self.draws)
        if weighed.size:
            found = f"weight on {self.agents[weighed[0]]!r}, which only asks"
            raise InvalidInput("weights", found=found, allowed="weights on sites only")
        if not self.asks.any():
            allowed = "at least one site that asks, or one question"
            raise InvalidInput("questions", found="nobody who asks", allowed=allowed)
        steps, sites = len(self.weight_steps), int((self.draws & self.asks).sum())
        if self.weight_refine and (not self.tolerance or steps < 3 or (steps - 1) % 2**self.weight_refine):
            found = f"{plural(self.weight_refine, 'halving')} of {plural(steps, 'step')}, tolerance {self.tolerance:g}"
            allowed = "all steps that the halvings make, and a tolerance"
            raise InvalidInput("weight_refine", found=found, allowed=allowed)
        further = self.agents[self.agent_count - max(steps - 1, 0) * sites :]
        if steps and (steps == 1 or not sites or not {*further} <= {*self.asks_only}):
            allowed = f"2 or more, and a question at the end for each of the {sites} sites that ask at all but one"
            raise InvalidInput("weight_steps", found=plural(steps, "step"), allowed=allowed)
        first = self.weights[:, self.asks][:, :1]
        weights = np.where(self.asks, self.weights, first)
        weights.setflags(write=False)
        object.__setattr__(self, "weights", weights)

    def _check_rates(self) -> None:
        """Raise if an agent with weight has a rate of 0: the study could never end."""
        stuck = np.zeros(0) if self.rate is None else np.flatnonzero((self.rate == 0) & self.weights.any(axis=1))
        if stuck.size:
            raise InvalidInput(
                "sampling.rate",
                found=f"0 for {self.agents[stuck[0]]}, whose rewards have weight in some mix",
                allowed="a rate above 0, or 0 for an agent without weight in any mix",
            )

    @property
    def headline(self) -> str:
        size = size_text(self.shape, len(self.asks_only))
        return f"{size}, delta = {self.delta:g}, top {self.top}, {self.noise.kind} rewards"

    @property
    def row_count(self) -> int:
        return len(self.sites) * len(self.askers)

    @property
    def picture(self) -> Picture:
        return Picture(shape="heat map", values="weight", rows="agent", across="mix_of")

    def columns(self) -> Columns:
        """The table of weights: `weight` is the weight of `agent`'s reward in the mixed reward of `mix_of`."""
        table = cells(self.sites, self.askers, weight=self.mix)
        return {"agent": table["arm"], "mix_of": table["agent"], "weight": table["weight"]}

    def require_question(self) -> None:
        """Raise if the study begins with no more open arms than an answer names: nothing would be left to find.

        >>> Problem(arms=["a", "b"], weights=[[1.0]], dormant=["b"]).require_question()
        Traceback (most recent call last):
        parley.errors.InvalidInput: dormant: found b, 1 of 2 arms open; allowed: at least 2 open arms, for a top of 1
        """
        still = self.arm_count - len(self.dormant)
        if still <= self.top:
            found = f"{', '.join(self.dormant)}, {still} of {self.arm_count} arms open"
            raise InvalidInput(
                "dormant", found=found, allowed=f"at least {self.top + 1} open arms, for a top of {self.top}"
            )

    @property
    def arm_count(self) -> int:
        """K, the number of arms."""
        return len(self.arms)

    @property
    def agent_count(self) -> int:
        """M, the number of agents."""
        return len(self.agents)

    @once
    def draws(self) -> BoolArray:
        """`(agent,)`: which agents are sites. All other agents only ask: they have no draws, tokens or reports.

        >>> problem = Problem(arms=2, weights=[[1, 0, 0.5], [0, 1, 0.5], [0, 0, 0]], asks_only=["agent 3"])
        >>> problem.draws.tolist(), problem.sites
        ([True, True, False], ('agent 1', 'agent 2'))
        """
        return ~np.isin(self.agents, self.asks_only)

    @once
    def asks(self) -> BoolArray:
        """`(agent,)`: which agents ask a question. All other agents only draw, and get no answer."""
        return ~np.isin(self.agents, self.draws_only)

    @once
    def sites(self) -> tuple[str, ...]:
        """The names of the agents that draw."""
        return tuple(agent for agent, draws in zip(self.agents, self.draws, strict=True) if draws)

    @property
    def cell_count(self) -> int:
        """The number of cells (pairs of arm and site) that can be drawn."""
        return self.arm_count * len(self.sites)

    @once
    def from_sites(self) -> IntArray:
        """`(agent,)`: every agent's index among the sites, to turn values per site into values per agent.

        An agent that only asks is not a site. It gets the index of the first site, and its values are never used.
        """
        return np.where(self.draws, np.cumsum(self.draws) - 1, 0)

    @once
    def askers(self) -> tuple[str, ...]:
        """The names of the agents that ask a question."""
        return tuple(agent for agent, asks in zip(self.agents, self.asks, strict=True) if asks)

    @property
    def mix(self) -> FloatArray:
        """`(site, question)`: the weights without rows of agents that only ask and columns of agents that only draw."""
        return self.weights[self.draws][:, self.asks]

    @property
    def alone(self) -> FloatArray:
        """The weights if every site counted only its own rewards. The weights of further questions do not change."""
        return np.where(self.draws, np.eye(self.agent_count), self.weights)

    @property
    def shape(self) -> tuple[int, int]:
        """(K, M): the last two axes of every array about this problem."""
        return self.arm_count, self.agent_count

    @property
    def rho_each(self) -> float | None:
        """The share of `rho` for each outcome of a person: outcomes are released separately, and losses add up."""
        return None if self.rho is None else self.rho / (1 + len(self.outcomes))

    @property
    def noise_variance(self) -> float:
        """Variance of the noise that a private report adds to every sum; 0 without `rho`."""
        return self.noise.noise_variance

    @once
    def squared_weights(self) -> FloatArray:
        """`weights**2`, `(agent n, agent m)`: turns variances of local means into variances of mixed means."""
        return np.square(self.weights)

    @once
    def questions(self) -> BoolArray:
        """`(agent,)`: True for one agent per distinct question: the first agent that asks with that column of weights.

        A finer step (`finer`) always counts as a question of its own.

        >>> Problem(arms=2, weights=[[0.5, 0.5, 0.2], [0.5, 0.5, 0.8], [0, 0, 0]]).questions.tolist()
        [True, False, True]
        """
        # Columns are compared as bytes: `np.unique` would sort copies of the matrix, a second and 100 MB for 2,000
        # agents. Adding 0.0 turns -0.0 into 0.0. The order is reversed, so that the first agent of every question
        # overwrites the later ones.
        asking = np.flatnonzero(self.asks & ~self.finer)[::-1].tolist()
        places = {(self.weights[:, place] + 0.0).tobytes(): place for place in asking}
        first = np.zeros(self.agent_count, dtype=np.bool_)
        first[list(places.values())] = True
        # The policy may close a finer question while a copy of that question is open, so both count as questions.
        return first | self.finer

    @once
    def finer(self) -> BoolArray:
        """`(agent,)`: which agents ask at a finer step of weights in doubt.

        A finer step needs draws only if the answers at its two neighbours differ.
        """
        steps, found = len(self.weight_steps), np.zeros(self.agent_count, dtype=np.bool_)
        if self.weight_refine:
            stated = stated_step(steps, self.weight_refine)
            # Further questions come last: site by site, a question for every step except the stated step.
            own = [step % 2**self.weight_refine > 0 for step in range(steps) if step != stated]
            block = np.tile(own, int((self.draws & self.asks).sum()))
            found[self.agent_count - block.size :] = block
        return found

    @once
    def question_count(self) -> int:
        """The number of distinct questions, over which the union bound is taken."""
        return int(self.questions.sum())

    @property
    def asks_exactly(self) -> bool:
        """Whether lower bounds on samples apply, because the study ends only with every agent's exact answer."""
        early = self.tolerance or self.max_samples is not None or self.max_rounds is not None or self.dormant
        return not early and self.horizon is None

    def mixed(self, values: FloatArray) -> FloatArray:
        """Mix local values `(..., arm, agent)`: `values @ weights`."""
        return values @ self.weights

    def mixed_variances(
        self,
        counts: IntArray,
        variances: FloatArray | float | None = None,
        releases: IntArray | int = 1,
        weights: FloatArray | None = None,
    ) -> FloatArray:
        """`(..., arm, agent)`: variances of mixed means after `counts` draws; huge where a weighted cell has no draws.

        `variances` are the variances of single rewards, one number or `(..., arm, agent)`; the default is the reward
        model's variance. If reports are private, noise was added to each of the `releases` of a cell's sum. With other
        `weights (agent, mix)` the result is `(..., arm, mix)`.

        >>> problem = Problem(arms=2, weights=[[0.8, 0.3], [0.2, 0.7]])
        >>> problem.mixed_variances(np.array([[10, 10], [10, 40]])).round(4).tolist()
        [[0.068, 0.058], [0.065, 0.0212]]
        """
        each = self.noise.variance if variances is None else variances
        squared = self.squared_weights if weights is None else np.square(weights)
        reciprocals = np.where(counts > 0, 1 / np.maximum(counts, 1), 1e30)  # a weight of 0 times this is still 0
        if self.rho is not None:
            each = np.asarray(each + self.noise_variance * releases * reciprocals, dtype=np.float64)
        if isinstance(each, float):
            return np.asarray(each * (reciprocals @ squared))
        return np.asarray((each * reciprocals) @ squared)

    def drawn(self, counts: IntArray, weights: FloatArray | None = None) -> BoolArray:
        """`(..., arm, agent)`: whether every cell with weight in the agent's mixed mean of the arm has draws."""
        # NumPy multiplies matrices of floats much faster than matrices of booleans or integers.
        weighed = ((self.squared_weights if weights is None else np.square(weights)) > 0).astype(np.float32)
        return np.asarray((counts == 0).astype(np.float32) @ weighed == 0)

    def of_outcome(self, outcome: Outcome, delta: float | None = None) -> Problem:
        """The problem of another outcome of the same draws, with that outcome's reward model and error probability.

        The covariate and the tolerance are dropped, since they concern only the primary outcome.
        """
        unadjusted = {row.name: row.default_value for row in SETTINGS.values() if row.section == "covariate"}
        own = {"noise": outcome.noise, "delta": self.delta if delta is None else delta, "tolerance": 0.0}
        return self.with_(**unadjusted | own, weight_refine=0)

    def with_arms(self, opened: Collection[str], withdrawn: Collection[str]) -> Problem:
        """The problem after arms were opened and withdrawn, with the share of delta it may spend (docs/changes.md).

        >>> problem = Problem(arms=["a", "b", "c"], weights=[[1.0]], dormant=["c"])
        >>> later = problem.with_arms(["c"], ["a"])
        >>> later.dormant, round(later.delta, 4)
        (('a',), 0.0101)
        """
        closed = (set(self.dormant) - set(opened)) | set(withdrawn)
        share = share_without(self.arm_count, len(withdrawn))
        return self.with_(dormant=tuple(closed), delta=self.delta * share)

    def with_(self, **changes: Any) -> Problem:
        """A checked copy with some fields changed."""
        return replace(self, **(self.settings() | changes))  # plain settings fit problems of other shapes too


def share_without(arms: int, withdrawn: int) -> float:
    """The share of delta after some arms were withdrawn; the shares of all nonempty sets of arms sum to at most 1/2.

    The other half is for the same sets of arms with other weights (`parley.protocol.lost_sites`).

    >>> share_without(4, 0), round(share_without(4, 1), 3)
    (1.0, 0.076)
    """
    return 6 / (math.pi * withdrawn) ** 2 / (2 * math.comb(arms, withdrawn)) if withdrawn else 1.0


def top_gaps(mixed_means: FloatArray, top: int) -> FloatArray:
    """Top-N gaps `(..., arm, agent)`: from arms outside the top N to the N-th best, from arms inside to the (N+1)-th.

    N = 1 gives the gaps of the paper's Section 1; its Appendix D defines the gaps for larger N. A tie at the boundary
    gives 0.

    >>> top_gaps(np.array([[3.0], [2.5], [1.0]]), top=1).ravel().tolist()
    [0.5, 0.5, 2.0]
    """
    ranked = -np.sort(-mixed_means, axis=-2)
    inside, outside = ranked[..., top - 1 : top, :], ranked[..., top : top + 1, :]
    return np.where(mixed_means >= inside, mixed_means - outside, inside - mixed_means)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift:
    """How the means move between phases: equally for all arms of a site, so that their differences do not change.

    >>> season = Drift(season=0.2, season_phases=4).shifts([None] * 5, 1, np.zeros((2, 1)), Gaussian())
    >>> season.round(3).tolist()  # of the sixth phase: five steps after the first
    [[[0.2]]]
    """

    step: float = 0.0  # standard deviation of a site's random step before every phase but the first
    given: tuple[float, ...] = ()  # steps that all sites take together, before the second phase, the third, ...
    season: float = 0.0  # amplitude of a wave that moves all sites up and down
    season_phases: int = 4  # length of the wave, in phases

    def shifts(self, steps: Sequence[Any], count: int, means: FloatArray, noise: RewardModel) -> FloatArray:
        """`(count, 1, agent)`: every site's shift in `count` studies; `steps` has a random generator for each step.

        Means stay within the range of rewards: a site stops moving when its highest or lowest arm reaches an end of the
        range.
        """
        agents = means.shape[-1]
        moved = np.full((count, agents), math.fsum(self.given[: len(steps)]))
        if self.step:
            moved += self.step * np.sum([each.standard_normal((count, agents)) for each in steps] or [0.0], axis=0)
        moved += self.season * np.sin(2 * np.pi * len(steps) / self.season_phases)
        low, high = noise.ends
        return np.asarray(np.clip(moved, low - means.min(axis=-2), high - means.max(axis=-2)))[:, None, :]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Instance(Tabular):
    """A problem with its true local means `(arm, agent)`. Only the policy `oracle` may see them.

    >>> problem = Problem(arms=2, weights=[[1, 0.9], [0.9, 1]] / np.float64(1.9))
    >>> instance = Instance(problem=problem, means=[[0.9, 0.8], [0.1, 0.5]])
    >>> instance.best.tolist()
    [[True, True], [False, False]]
    """

    problem: Problem
    means: FloatArray  # may be given as any nested sequence of numbers
    scale: Any = None  # the true scale of rewards, for simulations and bounds; the problem's unless given
    drift: Drift | None = None  # how the means move between phases; `means` are those of the first phase
    opens: Mapping[str, int] = field(
        default_factory=dict
    )  # arm -> the phase in which it is opened; it is drawn from the next phase on
    withdraws: Mapping[str, int] = field(default_factory=dict)  # arm -> the phase in which it is withdrawn
    history: History | None = (
        None  # past rows to draw from, shifted to the means; the model's own distribution unless given
    )
    covariate: CovariateTruth | None = None  # relation of x and outcomes; unless given, as the problem states
    outcomes: Mapping[str, FloatArray] = field(default_factory=dict)  # name -> true local means of a further outcome
    correlation: float = 0.0  # of each further outcome with the primary outcome of the same draw

    def __post_init__(self) -> None:
        arms, agents = self.problem.shape
        object.__setattr__(self, "covariate", self._covariate())
        if self.scale is not None:
            object.__setattr__(self, "scale", checked_scale("truth.scale", self.scale))
            fitting("truth.scale", self.scale, self.problem.shape)
        means = real_matrix("means", self.means, f"{arms} rows (arms) of {agents} columns (agents)")
        if means.shape != (arms, agents):
            raise InvalidInput(
                "means",
                found=f"{means.shape[0]} rows of {means.shape[1]} columns",
                allowed=f"{arms} rows (arms) of {agents} columns (agents)",
            )
        if np.abs(means).max() > LARGEST_SCALE:
            raise InvalidInput("means", found=np.abs(means).max(), allowed=f"numbers up to {LARGEST_SCALE:g}")
        self.problem.noise.check_means(means)
        if self.drift is not None and self.problem.horizon is not None:
            raise InvalidInput("truth.drift", found="drift in a study with a horizon", allowed="one or the other")
        means.setflags(write=False)
        object.__setattr__(self, "means", means)
        object.__setattr__(self, "outcomes", {name: self._outcome(name) for name in self.outcomes})
        if not -1 < number("truth.correlation", self.correlation) < 1:
            raise InvalidInput("truth.correlation", found=self.correlation, allowed="a number between -1 and 1")

    def _outcome(self, name: str) -> FloatArray:
        """Check the true means of a further outcome, and return them as `(arm, agent)`."""
        key, known = f"truth.outcomes.{name}", {outcome.name: outcome for outcome in self.problem.outcomes}
        if name not in known:
            raise UnknownName("outcome in truth.outcomes", name, known or ["none: the study has no [[outcomes]]"])
        means = real_array(key, self.outcomes[name], "a number, a row per agent, or a row per arm")
        try:
            means = np.broadcast_to(means, self.problem.shape)
        except ValueError:
            rows = f"{self.problem.shape[0]} rows (arms) of {self.problem.shape[1]} columns (agents)"
            raise InvalidInput(key, found=f"numbers of shape {means.shape}", allowed=rows) from None
        known[name].noise.check_means(means)
        return means

    @property
    def headline(self) -> str:
        return f"{self.problem.headline}, smallest gap {self.smallest_gap:.3g}"

    @property
    def row_count(self) -> int:
        return self.means.size

    @property
    def picture(self) -> Picture:
        return Picture(shape="heat map", values="mixed_mean", rows="arm", across="agent")

    def columns(self) -> Columns:
        """The table of local means, mixed means and gaps; `best` marks the best arms of each agent."""
        values = {"mean": self.means, "mixed_mean": self.mixed_means, "gap": self.gaps, "best": self.best}
        return cells(self.problem.arms, self.problem.agents, **values)

    def _covariate(self) -> CovariateTruth | None:
        if self.problem.covariate is None:
            if self.covariate is not None:
                raise InvalidInput("truth.covariate", found="one", allowed="none: the study has no [covariate]")
            return None
        truth = self.covariate or CovariateTruth(correlation=np.array(self.problem.covariate_correlation))
        if truth.law not in LAWS:
            raise UnknownName("truth.covariate.law", truth.law, LAWS)
        each = real_array("truth.covariate.correlation", truth.correlation, "numbers between -1 and 1")
        if each.shape not in ((), self.problem.shape[1:], self.problem.shape) or not (np.abs(each) < 1).all():
            allowed = "numbers between -1 and 1: one, a row per agent, or a row per arm with a column per agent"
            raise InvalidInput("truth.covariate.correlation", found=f"{each.tolist()!r:.60}", allowed=allowed)
        return replace(truth, correlation=np.broadcast_to(each, self.problem.shape))

    def _unexplained(self, variances: FloatArray | float) -> FloatArray | float:
        """The variances that remain after adjusting for the covariate with its true slope."""
        return variances if self.covariate is None else variances * (1 - np.square(self.covariate.correlation))

    @once
    def mixed_means(self) -> FloatArray:
        """`(arm, agent)`: the true means of the mixed rewards, mu' = mu W."""
        return self.problem.mixed(self.means)

    @once
    def cell_variances(self) -> FloatArray:
        """`(arm, agent)`: the true variance of a reward, after adjustment for the covariate if there is one."""
        return np.asarray(self._unexplained(self.problem.noise.true_variances(self.means, self.scale)))

    def question(self, problem: Problem, phase: int) -> Problem:
        """The given problem as it is after a phase, with the arms that were opened and withdrawn by then."""
        acts = (self.opens, self.withdraws)
        opened, withdrawn = ([arm for arm, when in some.items() if when <= phase] for some in acts)
        return problem.with_arms(opened, withdrawn) if opened or withdrawn else problem

    @once
    def _candidates(self) -> FloatArray:
        """`(arm, agent)`: the mixed means; minus infinity for arms that are not open."""
        closed = np.isin(self.problem.arms, self.problem.dormant)[:, None]
        return np.where(closed, -np.inf, self.mixed_means)

    @once
    def gaps(self) -> FloatArray:
        """The Top-N gaps of the mixed means, `(arm, agent)`; infinite for arms that are not open."""
        return top_gaps(self._candidates, self.problem.top)

    @once
    def best(self) -> BoolArray:
        """Which arms are in each agent's top N, `(arm, agent)`; more than N if arms tie."""
        boundary = -np.sort(-self._candidates, axis=0)[self.problem.top - 1]
        return self._candidates >= boundary  # type: ignore[no-any-return]

    @once
    def good(self) -> BoolArray:
        """Which arms are right answers, `(arm, agent)`: at most the tolerance below the N-th best."""
        boundary = -np.sort(-self._candidates, axis=0)[self.problem.top - 1]
        return self._candidates >= boundary - self.problem.tolerance  # type: ignore[no-any-return]

    @property
    def variances(self) -> FloatArray | float:
        """Variances of single rewards as bounds use them: one number, or an array that broadcasts to `(arm, agent)`."""
        return self._unexplained(self.problem.noise.bound_variances(self.means, self.scale))

    @property
    def smallest_gap(self) -> float:
        """Delta'_min, the smallest gap: the smaller, the harder the instance; 0 if arms tie at a boundary."""
        return float(self.gaps.min())

    @property
    def tied(self) -> bool:
        """Whether arms tie at some agent's top-N boundary."""
        return self.smallest_gap <= 0

    def require_distinct(self) -> None:
        """Raise `TiedArms`, naming the agent and the arms, if arms tie at a top-N boundary."""
        if not self.tied:
            return
        agent = int(np.argwhere(self.gaps <= 0)[0, 1])
        arms = [name for name, gap in zip(self.problem.arms, self.gaps[:, agent], strict=True) if gap <= 0]
        raise TiedArms(agent=self.problem.agents[agent], arms=arms, top=self.problem.top)

    def is_correct(self, chosen: IntArray) -> BoolArray:
        """`(...,)`: whether all arms in `chosen (..., top, agent)` are right answers for their agents."""
        agents = np.arange(self.problem.agent_count)
        return np.asarray(self.good[chosen, agents].all(axis=(-2, -1)))
