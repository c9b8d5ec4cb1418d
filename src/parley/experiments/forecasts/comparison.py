"""Comparison of a study with designs that a statistician would consider, under the same truths, and a recommendation.

If the reward model has exact and normal inference, the study is simulated with each. The other designs have the same
guarantee: with probability 1 - delta, every agent names an arm within the tolerance of its best arm. Designs that need
a size (a fixed size, five looks, five looks that drop losers) are sized once: they get the smallest size with which
they have the study's power under every truth of the table. Bechhofer's size and the procedure KN (see `selection`)
follow from the tolerance, so they apply only to studies with a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from parley.errors import InvalidInput
from parley.experiments.forecasts.designs import LOOKS, DesignSize, TextbookDesign, smallest_size
from parley.experiments.forecasts.planning import Planner, ScenarioCost
from parley.experiments.forecasts.scenarios import Scenario, gap_scenario, standard_error, upper_bound
from parley.experiments.forecasts.selection import DroppingTrial, Selection, bechhofer, bechhofer_draws, kn
from parley.policies import make_policy
from parley.problem import Instance, Problem
from parley.rewards import make_model
from parley.text.translation import Translatable, joined

RUNS = 1000  # simulated runs of every other design under every truth
FEW_RUNS = 200  # runs of KN, which has many looks
MOST_NUMBERS = 4_000_000  # runs x looks x pairs of arms x agents that a design may have in memory
MOST_PAIRS = 20_000  # pairs of arms x agents; with more, only the fixed size and five looks are compared
# Number of studies under the truth in which errors are most likely, and its limit as a multiple of a row's studies.
ERROR_STUDIES, ERRORS = 1000, 5
BEYOND = 1.05  # a gap of this many tolerances makes the other arms bad answers, but only just
CLOSE = 1.05  # two sizes whose ratio is smaller count as equal
PRACTICAL = 3.0  # a recommended design has at most this many times the looks of the study

EXACT, NORMAL = "exact", "normal"
OURS = Translatable("this study")


@dataclass(frozen=True, kw_only=True)
class Peer:
    """The results of a design other than the study, under one truth."""

    name: str
    label: str  # name for people
    figures: DesignSize


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The results for one truth: of the study under each inference method, and of the other designs."""

    truth: str
    studies: Mapping[str, ScenarioCost]  # see `Comparison.own` for the keys; the study's own method is first
    peers: Sequence[Peer]

    def figures(self, name: str) -> DesignSize | None:
        """The results of the other design `name`; None if it is not compared."""
        return next((peer.figures for peer in self.peers if peer.name == name), None)

    def ratio(self, name: str, peer: Peer) -> float:
        """The study's mean samples divided by another design's; `name` is the study's key in `studies`."""
        return float(self.studies[name].samples.mean()) / peer.figures.mean

    @property
    def best(self) -> Peer:
        """The other design with the fewest samples."""
        return min(self.peers, key=lambda peer: peer.figures.mean)

    def document(self) -> dict[str, Any]:
        """The results under the truth, ready for JSON."""
        own = next(iter(self.studies))
        return {
            "scenario": self.truth,
            "inference": {name: study.summary() | study.figures() for name, study in self.studies.items()},
            "peers": [
                {"name": peer.name, "label": peer.label, "ratio": self.ratio(own, peer)} | vars(peer.figures)
                for peer in self.peers
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The comparison under all truths, with the errors under the most difficult truth and a recommendation."""

    delta: float
    control: str | None
    rows: Sequence[Compared]
    designs: Designs  # the other designs, which can be simulated under further truths
    error_truth: str  # name of the truth in which errors are most likely; empty if there is none
    errors: Mapping[str, ScenarioCost]  # the study's results there, under each inference method

    @property
    def own(self) -> str:
        """The key of the stated study in `Compared.studies`.

        Keys are the names of inference methods; without a choice of inference, the only key is the policy's name.
        """
        return next(iter(self.rows[0].studies))

    @property
    def looks(self) -> int:
        """The number of looks of the other designs with several looks, for templates."""
        return LOOKS

    @property
    def claiming(self) -> list[ScenarioCost]:
        """The study's results under every truth if it tests superiority over the control; else empty."""
        own = [row.studies[self.own] for row in self.rows]
        return [study for study in own if study.superior is not None]

    def wrong(self, name: str) -> tuple[float, float, str]:
        """The largest share of wrong studies with inference `name`, with its upper confidence bound and its truth."""
        found = [(self.error_truth, self.errors[name])] if name in self.errors else []
        found += [(row.truth, row.studies[name]) for row in self.rows]
        truth, study = max(found, key=lambda pair: pair[1].error_rate)
        return study.error_rate, upper_bound(int(study.mistaken.sum()), len(study.samples)), truth

    @property
    def inference(self) -> tuple[str, str]:
        """The recommended inference and the reason; if there is no choice, the study's own inference and no reason."""
        if len(self.rows[0].studies) == 1:
            return self.own, ""
        samples = {name: sum(float(row.studies[name].samples.mean()) for row in self.rows) for name in (EXACT, NORMAL)}
        power = {name: sum(row.studies[name].power for row in self.rows) / len(self.rows) for name in (EXACT, NORMAL)}
        (rate, most, truth), share = self.wrong(NORMAL), samples[NORMAL] / samples[EXACT]
        erred = Translatable(
            "wrong in {0:.1f} % (at most {1:.1f} %) of the simulated studies under {2}; delta is {3:.1f} %",
            *(100 * rate, 100 * most, truth, 100 * self.delta),
        )
        if most > self.delta:  # the simulated studies do not prove that normal inference keeps delta
            return EXACT, Translatable("normal inference is {0}", erred)
        gains = Translatable(
            "{0:.2f} times as many samples as exact inference, on average over these truths, with a mean power of "
            "{1:.1f} % instead of {2:.1f} %",
            *(share, 100 * power[NORMAL], 100 * power[EXACT]),
        )
        if share > 1 / CLOSE and power[NORMAL] < CLOSE * power[EXACT]:
            return EXACT, Translatable("normal inference is an approximation and saves little: {0}", gains)
        return NORMAL, Translatable("it takes {0}, and it is {1}", gains, erred)

    @property
    def design(self) -> tuple[str, str]:
        """The label of the recommended design and the reason: this study, or a design that needs fewer samples."""
        name = self.inference[0]
        mine = [row.studies[name] for row in self.rows]
        total, looks = sum(float(study.samples.mean()) for study in mine), max(float(s.rounds.mean()) for s in mine)
        choices = [
            (sum(row.peers[place].figures.mean for row in self.rows) / total, peer)
            for place, peer in enumerate(self.rows[0].peers)
            if all(row.peers[place].figures.rounds <= PRACTICAL * looks for row in self.rows)
            and all(_as_powerful(row.peers[place].figures, row.studies[name]) for row in self.rows)
        ]
        share, best = min(choices, key=lambda pair: pair[0], default=(1.0, None))
        if best is None or share > 1 / CLOSE:
            why = Translatable(
                "no other design with the same power and at most three times as many looks takes clearly fewer samples"
            )
            if best is not None:
                why = Translatable("{0}; the nearest, {1}, takes {2:.2f} times as many", why, best.label, share)
            return OURS, why
        ours = Translatable("this study with {0} inference", name) if self.inference[1] else OURS
        return best.label, Translatable(
            "on average over these truths, it takes {0:.2f} times as many samples as {1}", share, ours
        )

    @property
    def behind(self) -> list[tuple[str, Peer, float]]:
        """The truths under which another design needs clearly fewer samples, each with that design and its `ratio`."""
        name, found = self.inference[0], []
        for row in self.rows:
            if row.peers and (ratio := row.ratio(name, row.best)) > CLOSE:
                found.append((row.truth, row.best, ratio))
        return found

    @property
    def error_sentence(self) -> str:
        """How often each inference is wrong under the truth in which errors are most likely.

        Empty if there is no tolerance, or no choice of inference.
        """
        shares = [
            Translatable(
                "{0} inference {1:.1f} % (at most {2:.1f} %)",
                *(name, 100 * study.error_rate, 100 * upper_bound(int(study.mistaken.sum()), len(study.samples))),
            )
            for name, study in self.errors.items()
        ]
        return (
            Translatable(
                "Share of simulated studies with a wrong answer under {0}: {1}.", self.error_truth, joined(", ", shares)
            )
            if shares
            else ""
        )

    @property
    def sentences(self) -> list[str]:
        """The recommendations with their reasons, and the truths under which other designs are better."""
        (name, why), (design, because) = self.inference, self.design
        said: list[str] = [Translatable("Recommended inference: {0}. Reason: {1}.", name, why)] if why else []
        said += [self.error_sentence] if self.error_sentence else []
        said.append(Translatable("Recommended design: {0}. Reason: {1}.", design, because))
        said += [
            Translatable(
                "Under {0}, {1} takes fewer samples: {2:,.0f} in {3:,.1f} looks; "
                "this study takes {4:.2f} times as many.",
                *(truth, peer.label, peer.figures.mean, peer.figures.rounds, ratio),
            )
            for truth, peer, ratio in self.behind
        ]
        return said

    def document(self) -> dict[str, Any]:
        """The whole comparison, ready for JSON."""
        (name, why), (design, because) = self.inference, self.design
        return {
            "truths": [row.document() for row in self.rows],
            "error_truth": self.error_truth or None,
            "errors": {key: study.figures() for key, study in self.errors.items()},
            "inference": name,
            "inference_reason": why,
            "design": design,
            "design_reason": because,
            "behind": [{"scenario": truth, "peer": peer.name, "ratio": ratio} for truth, peer, ratio in self.behind],
        }


def _as_powerful(figures: DesignSize, study: ScenarioCost) -> bool:
    error = np.hypot(figures.power_error, study.standard_error(study.correct))
    return bool(figures.power >= study.power - 2 * error - 1 / len(study.samples))


def compare(
    planner: Planner, problem: Problem, known: Sequence[tuple[Scenario, ScenarioCost]], *, runs: int = RUNS
) -> Comparison:
    """Compare a study with other designs; `known` has the truths, each with the study's results under it."""
    own, others = inferences(planner, problem)
    truths = [truth for truth, _ in known]
    errors: dict[str, ScenarioCost] = {}
    beyond = error_truth(problem) if others else None
    if beyond is not None:
        many = replace(planner, replications=_error_studies([len(study.samples) for _, study in known]))
        for name, asked in {own: problem, **others}.items():
            planner.announce(f"errors, {name} inference")
            errors[name] = many.estimate(beyond, asked)
    found = {}
    for name, asked in others.items():
        for place, (truth, study) in enumerate(known):
            planner.announce(f"{truth.name}, {name} inference")
            as_many = replace(planner, replications=len(study.samples) // len(truth.means))
            found[name, place] = as_many.estimate(truth, asked)
    planner.announce("other designs")
    looks = max(2, round(float(np.mean([study.rounds.mean() for _, study in known]))))
    # No design can be sized for a power of 1: use the largest power below 1 that this many studies can resolve.
    powers = [min(study.power, 1 - 1 / (2 * len(study.samples))) for _, study in known]
    designs = Designs.of([truth.instances(problem) for truth in truths], powers, planner.seed, looks, runs)
    return Comparison(
        delta=problem.delta,
        control=problem.control,
        designs=designs,
        rows=[
            Compared(
                truth=truth.name,
                studies={own: study} | {name: found[name, place] for name in others},
                peers=designs.under(truth.instances(problem)),
            )
            for place, (truth, study) in enumerate(known)
        ],
        error_truth=beyond.name if beyond is not None else "",
        errors=errors,
    )


def compared_studies(planner: Planner, problem: Problem, studies: Sequence[int]) -> int:
    """The number of studies that `compare` simulates, given the number of known studies of each truth."""
    others = inferences(planner, problem)[1]
    errors = _error_studies(studies) * (1 + len(others)) if error_truth(problem) is not None else 0
    return len(others) * sum(studies) + errors if others else 0


def _error_studies(studies: Sequence[int]) -> int:
    return min(ERRORS * max(studies), max(ERROR_STUDIES, *studies, 0))


def inferences(planner: Planner, problem: Problem) -> tuple[str, dict[str, Problem]]:
    """The name of the study's inference, and a problem for every other inference that its policy supports, by name.

    Without a choice of inference, the name is the policy's.
    """
    stated = problem.noise.document()
    words = type(problem.noise).choices.get("inference", ())
    own, others = stated.get("inference", words[0] if words else planner.policy), {}
    for word in words:
        asked = problem.with_(noise=make_model(**stated | {"inference": word}))
        try:
            make_policy(planner.policy, asked, planner.options)
        except InvalidInput:
            continue
        if word != own:
            others[word] = asked
    return own, others


def error_truth(problem: Problem) -> Scenario | None:
    """The truth in which errors are most likely: all arms but the best are worse by just more than the tolerance.

    None without a tolerance, or if that gap exceeds the largest gap.
    """
    gap = BEYOND * problem.tolerance
    if not 0 < gap <= problem.largest_gap:
        return None
    return replace(
        gap_scenario(problem, gap),
        name=Translatable("all others {0:.4g} worse than the best, just beyond the tolerance", gap),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Designs:
    """The other designs, sized once for all truths of a table, to be simulated under any truth."""

    seed: int
    looks: int  # number of looks of the KN design that looks about as often as the study
    runs: int
    zone: float  # the difference that Bechhofer's and KN's designs detect; 0 if these designs are omitted
    estimated: bool  # whether the scale of rewards is unknown
    per_cell: Mapping[str, int]  # draws per cell, by name, of the designs that have a size

    @classmethod
    def of(
        cls, truths: Sequence[Sequence[Instance]], powers: Sequence[float], seed: int, looks: int, runs: int
    ) -> Designs:
        """Size the designs so that each has at least the power in `powers` under the corresponding truth."""
        problem = truths[0][0].problem
        small = problem.arm_count**2 * problem.agent_count <= MOST_PAIRS
        single = problem.top == 1 and problem.rho is None and not problem.dormant and small
        made = cls(
            seed=seed,
            looks=looks,
            runs=runs,
            zone=problem.tolerance if single else 0.0,
            estimated=isinstance(problem.noise.document().get("scale"), str),
            per_cell={},
        )
        sizes: dict[str, int] = {}
        for name in ("fixed", "sequential", *(("dropping",) if single else ())):
            found = [
                smallest_size(made.trial(name, instances), power)
                for instances, power in zip(truths, powers, strict=True)
                if power > 0
            ]
            if found and all(size is not None for size in found):
                sizes[name] = max(size.per_cell for size in found if size is not None)
        if made.zone > 0:
            sizes["bechhofer"] = bechhofer_draws([one for instances in truths for one in instances], made.zone)
        return replace(made, per_cell=sizes)

    def trial(self, name: str, instances: Sequence[Instance]) -> Callable[[int], DesignSize]:
        """A function that simulates the design `name` at any size, always with the same random errors."""
        looks = 1 if name in ("fixed", "bechhofer") else LOOKS
        if name in ("fixed", "sequential"):
            return TextbookDesign.of(instances, seed=self.seed, looks=looks, runs=self.runs).at
        each, cells = self._each(instances, self.runs, looks), instances[0].problem.cell_count
        if name == "bechhofer":
            return lambda draws: _figures(
                instances,
                [bechhofer(one, draws, runs=each, seed=self.seed + place) for place, one in enumerate(instances)],
                draws,
            )
        trials = [DroppingTrial.of(one, seed=self.seed + place, runs=each) for place, one in enumerate(instances)]
        return lambda draws: _figures(instances, [trial.run(draws) for trial in trials], draws, draws * cells)

    def under(self, instances: Sequence[Instance]) -> list[Peer]:
        """Simulate each design under the truths `instances`; results are averages over these truths."""
        found = [
            Peer(name=name, label=LABELS[name], figures=self.trial(name, instances)(size))
            for name, size in self.per_cell.items()
        ]
        for name, looks in (("kn", None), ("kn_looks", self.looks)) if self.zone > 0 else ():
            each = self._each(instances, FEW_RUNS if looks is None else self.runs, 1)
            runs = [
                kn(one, self.zone, estimated=self.estimated, looks=looks, runs=each, seed=self.seed + place)
                for place, one in enumerate(instances)
            ]
            label = KN if looks is None else Translatable("KN with {0} looks", looks)
            found.append(Peer(name=name, label=label, figures=_figures(instances, runs)))
        return found

    def _each(self, instances: Sequence[Instance], runs: int, looks: int) -> int:
        pairs = instances[0].problem.arm_count * instances[0].means.size
        return max(min(runs, MOST_NUMBERS // (pairs * looks)) // len(instances), 20)


LABELS = {
    "fixed": Translatable("a fixed size (Bonferroni)"),
    "sequential": Translatable("{0} looks (O'Brien and Fleming)", LOOKS),
    "dropping": Translatable("{0} looks at which losers are dropped", LOOKS),
    "bechhofer": Translatable("Bechhofer's fixed size"),
}
KN = Translatable("KN, fully sequential")


def _figures(
    instances: Sequence[Instance], runs: Sequence[Selection], per_cell: int | None = None, most: int | None = None
) -> DesignSize:
    """Summarize the runs of all truths; `most` is the largest possible size, by default the size of the largest run."""
    samples = np.concatenate([found.samples for found in runs]).astype(np.float64)
    power = np.concatenate([found.power(one) for found, one in zip(runs, instances, strict=True)])
    wrong = np.concatenate([found.bad(one) for found, one in zip(runs, instances, strict=True)])
    largest = int(np.ceil(samples.max())) if most is None else most
    return DesignSize(
        per_cell=-(-largest // instances[0].means.size) if per_cell is None else per_cell,
        samples=largest,
        mean=float(samples.mean()),
        mean_error=standard_error(samples, len(instances)),
        rounds=float(np.concatenate([found.rounds for found in runs]).mean()),
        power=float(power.mean()),
        power_error=standard_error(power, len(instances)),
        wrong=float(wrong.mean()),
    )
