"""Flaws put into the package on purpose, each with the test that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """`old` stands once in `file` (below src/parley) and becomes `new`; then `test` must fail."""

    room: str
    flaw: str
    file: str
    old: str
    new: str
    test: str


RACING = "tests/policies/test_evidence_racing.py::"
TOGETHER = "tests/policies/test_together.py::"
SETS = "tests/policies/test_sets.py::"
CERTIFICATE = "tests/policies/test_evidence_certificate.py::"
EVIDENCE = "tests/rewards/test_payoffs.py::"
SOLVER = "tests/harmonic/test_solver.py::"
BOUNDS = "tests/bounds/test_paper.py::"
BUDGETS = "tests/policies/test_budgets.py::"
TOLERANCE = "tests/policies/test_tolerance.py::"
LAST_LOOK = "tests/rewards/test_last_look.py::"
PLAY = "tests/policies/test_regret.py::"
PAIRS = "tests/policies/test_pairs.py::"
TWIN = "tests/twin/test_twin.py::"
LOST = "tests/policies/test_lost_sites.py::"
SITE = "tests/agent/test_site.py::"
PAGE = "tests/agent/test_site_page.py::"
FLAGS = "tests/edges/flags/test_flags.py::"
WAREHOUSE = "tests/agent/test_warehouse.py::"
NETWORK = "tests/agent/test_network.py::"
DEVIATIONS = "tests/protocol/test_deviations.py::"
ANEW = "tests/protocol/test_lost_sites.py::"
ARMS = "tests/protocol/test_arms.py::"
CORRECTED = "tests/protocol/test_corrections.py::"
ENDS = "tests/protocol/test_never_runs_away.py::"
RUNS = "tests/simulation/test_simulate.py::"
DRAWS = "tests/simulation/test_environments.py::"
ROUNDING = "tests/rewards/test_rounding.py::"
PRIVATE = "tests/rewards/test_private.py::"
NOISY = "tests/agent/test_private_reports.py::"
STAMPS = "tests/coordinator/test_stamps.py::"
OIDC = "tests/dashboard/test_oidc.py::"
HOOKS = "tests/edges/webhooks/test_webhooks.py::"
SIGNED = "tests/coordinator/test_signed.py::"
AUDIENCES = "tests/dashboard/test_audiences.py::"
CLAIMS = "tests/dashboard/test_claims.py::"
REPORT = "tests/dashboard/test_report.py::"
RENDERED = "tests/dashboard/test_everything_renders.py::test_a_study_to_which_much_happened"
ESTIMATES = "tests/test_estimates.py::test_at_ties_they_hold_together_and_a_width_that_is_off_by_a_third_is_noticed"
GAUSSIAN_END = "return np.where(known, centre - radius, -np.inf), np.where(known, centre + radius, np.inf)"
DIFFERENCE_END = "ends = np.where(found, centre + sign * out, sign * np.inf)"
RANGE_END = "ends.append(np.where(known, end, sign * np.inf))"


def _of(room: str, *rows: tuple[str, str, str, str, str]) -> list[Mutant]:
    return [Mutant(room=room, flaw=a, file=b, old=c, new=d, test=e) for a, b, c, d, e in rows]


MUTANTS = [
    *_of(
        "solver",
        ("the proof is a thousandth too high", "harmonic/solver.py", "lower = total(np.sqrt(charged * programs.columns(scaled))) ** 2",
         "lower = 1.001 * total(np.sqrt(charged * programs.columns(scaled))) ** 2", SOLVER + "test_every_answer_is_feasible_and_its_gap_is_proven_from_scratch"),
        ("an allocation is a hundredth too small", "harmonic/solver.py", "allocation=self.allocation * per_program(scale, self.allocation),",
         "allocation=0.99 * self.allocation * per_program(scale, self.allocation),", SOLVER + "test_every_answer_is_feasible_and_its_gap_is_proven_from_scratch"),
        ("missing the accuracy is overlooked", "harmonic/solver.py", "reached = (value == 0) | (1 - self.lower / np.where(value > 0, value, 1) <= accuracy)",
         "reached = (value == 0) | (1 - self.lower / np.where(value > 0, value, 1) <= 1)", SOLVER + "test_missing_the_accuracy_cannot_be_overlooked"),
    ),
    *_of(
        "bounds",
        ("the program of T* has gap^2 on its right side", "bounds/paper.py", "rows = np.where(best, np.inf, np.square(gaps) / (2 * common))",
         "rows = np.where(best, np.inf, np.square(gaps) / common)", BOUNDS + "test_the_two_by_two_example"),
        ("the oracle forgets the noise", "bounds/paper.py", "bounds = np.square(gaps) / (2 * common)",
         "bounds = np.square(gaps) / 2", BOUNDS + "test_noise_enters_as_variance"),
        ("log(1 / 2.4 delta) without the 2.4", "bounds/paper.py", "bound.proven * max(math.log(1 / (2.4 * delta)), 0.0)",
         "bound.proven * max(math.log(1 / delta), 0.0)", BOUNDS + "test_expected_samples_is_the_papers_c_star"),
        ("weights are transposed", "problem.py", "return values @ self.weights\n",
         "return values @ self.weights.T\n", "tests/test_problem.py"),
    ),
    *_of(
        "quotas",
        ("counts are rounded down", "policies/base.py", "return np.ceil(values).astype(np.int64)",
         "return np.floor(values).astype(np.int64)", "tests/policies/test_quotas.py::test_counts_are_feasible_and_minimal_down_to_tiny_proxy_gaps"),
        ("small cells stay small", "policies/base.py", "return np.where(quotas > 0, np.maximum(quotas, minimum), quotas)",
         "return quotas", "tests/policies/test_minimum_cell.py"),
        ("a cut plan may exceed the budget by one", "policies/base.py", "places < np.maximum(left - flat.sum(axis=-1), 0)[..., None]",
         "places < np.maximum(left + 1 - flat.sum(axis=-1), 0)[..., None]", BUDGETS + "test_a_cut_plan_keeps_to_what_is_left_and_to_the_minimum"),
    ),
    *_of(
        "thresholds",
        ("beta without its factor 2", "policies/wcpe.py", "return np.asarray(2 * (constant + 2 * iterated))",
         "return np.asarray(constant + 2 * iterated)", "tests/policies/test_thresholds.py::test_beta_is_the_papers_formula_and_increases_in_every_count"),
        ("PF-UCB's radius forgets the agents", "policies/pf_ucb_bai.py", "np.sqrt(2 * logs / (agents * effort))",
         "np.sqrt(2 * logs / effort)", "tests/policies/test_thresholds.py::test_pf_ucb_radius_is_the_papers_formula"),
    ),
    *_of(
        "evidence",
        ("a bet does not pay for its stake", "rewards/bets.py", "return _log_sum_exp(log_shares + stakes * z[..., None] - 0.5 * stakes**2)",
         "return _log_sum_exp(log_shares + stakes * z[..., None] - 0.4 * stakes**2)", EVIDENCE + "test_a_bet_is_fair_at_a_tie_and_loses_beyond"),
        ("the multiplier is a millionth too large", "rewards/bets.py", "np.maximum(cap - log_bet(accepted, u, log_shares) - ROUNDING, 0.0)",
         "np.maximum(cap - log_bet(accepted, u, log_shares) + 1e-6, 0.0)", EVIDENCE + "test_the_multiplier_is_never_above_its_exact_value_and_hardly_below"),
        ("the bound on a gap forgets the height", "rewards/intervals.py", "height = np.sqrt(2 * line + np.log1p(weight))",
         "height = np.sqrt(2 * line)", EVIDENCE + "test_the_bound_on_a_gap_is_the_inverted_mixture_a_little_below"),
        ("the line forgets the agents", "policies/evidence/racing.py", "(0.0 if self.together else self._log_questions) - math.log(self.problem.delta)",
         "-math.log(self.problem.delta)", RACING + "test_the_line_pays_for_every_distinct_question_and_for_nothing_else"),
        ("a set keeps what its new slot had of another", "policies/evidence/wealth.py", "wealth[some] = np.take_along_axis(mine, np.minimum(at, top - 1), axis=1)",
         "pass", SETS + "test_a_slot_begins_with_the_least_that_any_of_its_sets_had"),
        ("the least of a slot's sets is taken of the leaders alone", "policies/evidence/wealth.py", "free = top - 1 - r",
         "free = 0", SETS + "test_a_slot_begins_with_the_least_that_any_of_its_sets_had"),
        ("an arm goes when its own slots are on the line", "policies/evidence/wealth.py", "np.minimum(mine, others)", "mine",
         SETS + "test_no_slot_has_more_than_any_of_its_sets_and_no_arm_goes_before_all_its_sets"),
        ("one slot on the line is enough", "policies/evidence/wealth.py", "least = np.asarray(state.log_wealth.min(axis=-3))",
         "least = np.asarray(state.log_wealth.max(axis=-3))", RACING + "test_an_arm_is_out_only_when_all_its_slots_are_on_the_line"),
        ("a joint answer is rejected without what its right arms hold", "policies/evidence/joint.py", "np.log1p(others / shares)", "np.log1p(0 * others / shares)",
         TOGETHER + "test_nothing_is_said_that_the_joint_answers_do_not_have"),
        ("joint answers of arms that do not lead are forgotten", "policies/evidence/joint.py", "below = state.active & (state.log_wealth.min(axis=-3) < self.line)",
         "below = state.active & (state.log_wealth.min(axis=-3) < 0.01)", TOGETHER + "test_nothing_is_said_that_the_joint_answers_do_not_have"),
        ("shares of joint answers follow every phase", "policies/evidence/joint.py", "first = ((before.phase == 0) & ~before.finished)[..., None, None]",
         "first = ((before.phase >= 0) & ~before.finished)[..., None, None]", TOGETHER + "test_nothing_is_said_that_the_joint_answers_do_not_have"),
        ("a slot keeps more than its joint answers have", "policies/evidence/racing.py", "opponents, NO_SET if self.together else self.line)",
         "opponents, self.line)", TOGETHER + "test_nothing_is_said_that_the_joint_answers_do_not_have"),
        ("the first phase is evidence", "policies/evidence/racing.py", "return np.asarray(((state.phase > 0) & ~state.finished)[..., None, None])",
         "return np.asarray((~state.finished)[..., None, None])", RACING + "test_the_first_phase_is_no_evidence"),
    ),
    *_of(
        "regret",
        ("what is not worth its cost is explored all the same", "policies/evidence/regret.py", "shares * solution.value[:, None, None, None] > worth[unsettled]",
         "shares > np.inf * (1 + worth[unsettled])", PLAY + "test_a_tie_costs_far_less_than_the_horizon"),
        ("contrasts that are too dear are dropped once, not until the rest is worth it", "policies/evidence/regret.py", "unsettled = unsettled[dear.any(axis=(-3, -2, -1))]",
         "unsettled = unsettled[:0]", PLAY + "test_nothing_is_explored_that_costs_more_than_it_is_worth"),
        ("who plays only is never looked at again", "policies/evidence/regret.py", "np.where(touched.any(axis=(-2, -1)), length, longest)",
         "np.where(touched.any(axis=(-2, -1)), length, 1e9)", PLAY + "test_who_plays_only_is_looked_at_again"),
        ("a phase that speaks for an arm may rule it out", "policies/evidence/regret.py", "np.where(against_it, after.log_wealth, np.minimum(after.log_wealth, line - 1e-9))",
         "after.log_wealth", PLAY + "test_a_phase_that_speaks_for_an_arm_never_rules_it_out"),
        ("regret until a horizon lets go of what it should keep", "bounds/paper.py", "(saved > blind(explored & ~freed) - lost)",
         "(saved > 0)", BOUNDS + "test_regret_until_a_horizon_is_about_the_least_that_any_choice_of_arms_costs"),
    ),
    *_of(
        "tolerance",
        ("a share too much", "policies/evidence/tolerance.py", "others = inside.sum(axis=-2, keepdims=True) - inside",
         "others = np.ones_like(inside)", PAIRS + "test_the_shares_against_every_possible_top_n_add_up_to_at_most_one"),
        ("the top N share nothing", "policies/evidence/tolerance.py", "share = taken[..., :, None, :] * missed",
         "share = taken[..., :, None, :] * np.ones_like(missed)", PAIRS + "test_the_shares_against_every_possible_top_n_add_up_to_at_most_one"),
        ("a pair is settled by the phase that chose its share", "policies/evidence/tolerance.py",
         "variances, (before.phase == 0) & ~before.finished)",
         "variances, (before.phase == 1) & ~before.finished)", PAIRS + "test_the_state_is_that_of_the_judge"),
        ("only the leader's pairs are settled", "policies/evidence/tolerance.py", "live = distinct & undecided[..., None, :, :]",
         "live = distinct & (problem.mixed(state.means) == problem.mixed(state.means).max(axis=-2, keepdims=True))[..., :, None, :] & undecided[..., None, :, :]",
         PAIRS + "test_the_state_is_that_of_the_judge"),
        ("answers may lack a pair", "policies/evidence/tolerance.py", ".all(axis=-3)\n    missing",
         ".any(axis=-3)\n    missing", PAIRS + "test_the_state_is_that_of_the_judge"),
        ("answers within three times the tolerance", "policies/evidence/settling.py", "shift = problem.tolerance",
         "shift = 3 * problem.tolerance", TOLERANCE + "test_bad_answers_just_beyond_the_tolerance_are_as_rare_as_counted"),
        ("the horizon spends again what this phase has spent", "rewards/bets.py", "goal = np.log1p(-share) - log_cap - SAFETY",
         "goal = -log_cap - SAFETY", LAST_LOOK + "test_the_conditional_error_has_expectation_one_and_does_not_fall"),
        ("wcpe accepts within twice the tolerance", "policies/wcpe.py", "mixed + half <= lowest + self.problem.tolerance",
         "mixed + half <= lowest + 2 * self.problem.tolerance", TOLERANCE + "test_wcpe_accepts_where_no_interval_reaches_above_the_leaders_by_more"),
    ),
    *_of(
        "certificate",
        ("gaps are told twice as large as proven", "policies/evidence/racing.py", 'gap_at_least": float(bound)',
         'gap_at_least": 2 * float(bound)', CERTIFICATE + "test_the_certificate_tells_the_bounds_that_the_evidence_gives"),
        ("the bounds on gaps forget the true top arms that a tolerance may set aside", "policies/evidence/racing.py", "(0 if self.problem.tolerance else self.problem.top)",
         "self.problem.top", TWIN + "test_a_study_as_planned"),
        ("every phase of an unknown scale has the whole level of a bound", "rewards/unknown_scale.py", "level = BASEL - 2 * np.log(order) - phase.line",
         "level = BASEL - phase.line", TWIN + "test_a_study_as_planned[unknown-0.0]"),
        ("what was set aside within the tolerance is called ruled out", "policies/base.py", "[closed, ends == OutcomeStatus.LEFT.value, aside, ~state.active, answered]",
         "[closed, ends == OutcomeStatus.LEFT.value, aside & False, ~state.active, answered]", TOLERANCE + "test_an_arm_is_out_or_set_aside_and_only_what_is_out_is_called_worse"),
        ("a site that left without an answer chooses arms", "policies/base.py", "[closed, ends == OutcomeStatus.LEFT.value, aside, ~state.active, answered]",
         "[closed, aside & False, aside, ~state.active, ~aside]", ANEW + "test_six_sites_one_lost_re_weighed_everybody_else_is_decided"),
        ("late phases are as small as what is missing", "policies/evidence/plan.py", "WORTH_A_ROUND = 0.25",
         "WORTH_A_ROUND = 0.0", "tests/policies/test_prices.py::test_a_late_phase_is_worth_its_round"),
        ("truths of a forecast lie around the estimates", "experiments/forecasts/forecast.py", "kept = square / (square + np.square(errors))",
         "kept = square / square", "tests/experiments/forecasts/test_forecast.py::test_means_are_as_far_apart_as_the_estimates_suggest_and_no_farther"),
        ("an exhausted study claims answers", "protocol/certificate.py", "complete=end.answered,",
         "complete=True,", BUDGETS + "test_the_certificate_of_an_exhausted_study_claims_candidates_only"),
    ),
    *_of(
        "rounding",
        ("rounding counts as scatter", "rewards/unknown_scale.py", "np.where(scatter > lost, (scatter + lost) / np.maximum(degrees, 1.0), HIDDEN)",
         "np.maximum(scatter, TINY) / np.maximum(degrees, 1.0)", ROUNDING + "test_a_tie_far_from_zero_is_no_more_often_decided_than_delta_says"),
        ("a range far from 0 is taken to scatter by nothing", "rewards/bounded_variance.py", "np.minimum(past.scatter + past.rounding, past.counts * self.variance)",
         "past.scatter", ROUNDING + "test_a_range_far_from_zero_ends_and_is_right"),
        ("unequal scales are pooled unless stated", "rewards/unknown_scale.py", '"unknown": (),',
         '"unknown": (-2, -1),', "tests/correctness/test_near_ties.py::test_sites_that_scatter_differently_are_no_danger_where_nothing_is_said_of_scales"),
    ),
    *_of(
        "estimates",
        *(
            row
            for share, word in ((0.7, "narrower"), (1.3, "wider"))
            for row in (
                (f"means of a known scale have intervals {word} by 30 %", "rewards/intervals.py", GAUSSIAN_END,
                 f"radius = {share} * radius\n    " + GAUSSIAN_END, "tests/test_estimates.py::test_an_end_is_where_the_bet_reaches_its_line[known]"),
                (f"differences of a known scale have intervals {word} by 30 %", "rewards/intervals.py", DIFFERENCE_END,
                 DIFFERENCE_END.replace("sign * out", f"{share} * sign * out"), ESTIMATES + "[known]"),
                (f"intervals of an unknown scale are 30 % {word}", "rewards/intervals.py", DIFFERENCE_END,
                 DIFFERENCE_END.replace("sign * out", f"{share} * sign * out"), ESTIMATES + "[unknown]"),
                (f"intervals of zeros and ones are 30 % {word}", "rewards/intervals.py", RANGE_END,
                 RANGE_END.replace("end,", f"centre + {share} * (end - centre),"), ESTIMATES + "[binary]"),
                (f"intervals in a range are 30 % {word}", "rewards/intervals.py", RANGE_END,
                 RANGE_END.replace("known, end,", f"known, centre + {share} * (end - centre),"), ESTIMATES + "[bounded]"),
            )
        ),
        ("the logarithm of a bet is overstated", "rewards/intervals.py", "stakes * third / 3)",
         "stakes * third)", "tests/test_estimates.py::test_an_end_of_zeros_and_ones_is_where_the_exact_product_of_bets_reaches_its_line"),
        ("what one side can lose is taken for the other's", "rewards/intervals.py", '(("up", below), ("down", above))',
         '(("up", above), ("down", below))', "tests/test_estimates.py::test_squares_alone_understate_what_a_bet_wins"),
        ("either side of a difference has the whole level", "rewards/intervals.py", "np.log(shares / 2)",
         "np.log(shares)", "tests/test_estimates.py::test_an_end_of_a_difference_is_where_its_boosted_bets_reach_the_line[known]"),
        ("differences are pooled over phases", "estimates.py", "    every, line = stack_phases(seen).of(some), joint_line(problem)\n",
         "    seen = [problem.noise.summary(Totals.zero(past.counts.shape), past, problem.weights)]\n"
         "    every, line = stack_phases(seen).of(some), joint_line(problem)\n",
         "tests/test_estimates.py::test_differences_hold_where_all_means_drift[known]"),
        ("a move of all arms is taken for skew", "rewards/plausibility.py", "score = np.where(known, np.clip((moved - drift) / error, -LARGEST_MOVE, LARGEST_MOVE), 0.0)",
         "score = np.where(known, moved / error, 0.0)", "tests/protocol/test_scatter.py::test_the_evidence_of_unequal_scales_and_of_skew_is_1_on_average_or_less_where_there_is_none[5.0]"),
        ("who adds up phases claims its guarantee under drift", "policies/base.py", "allows_drift: ClassVar[bool] = False",
         "allows_drift: ClassVar[bool] = True", "tests/policies/test_conformance.py::test_who_allows_drift_rules_out_the_same_arms_wherever_a_site_has_moved[one-wcpe]"),
        ("changes between phases are looked for in one pair", "estimates.py", "for k in range(1, problem.arm_count):",
         "for k in range(problem.arm_count - 1, problem.arm_count):", "tests/test_estimates.py::test_whether_differences_change_is_asked_of_every_pair_of_arms"),
    ),
    *_of(
        "simulator",
        ("an instance of other weights is simulated", "simulation/simulate.py", "        _check_fit(policy, instance)\n",
         "", RUNS + "test_a_policy_that_is_asked_another_question_is_refused"),
        ("errors are not counted", "simulation/outcome.py", "< top).any(axis=-1)",
         "< top).all(axis=-1) & False", RUNS + "test_errors_are_counted"),
        ("all blocks draw the same rewards", "simulation/simulate.py", "spawn_key=(block, phase)",
         "spawn_key=(0, phase)", "tests/tools/test_mutants.py::test_blocks_draw_their_own_rewards"),
        ("sums of squares forget the scatter", "rewards/sampling.py", "scatter = np.square(scale) * 2.0 * other.standard_gamma",
         "scatter = 0 * other.standard_gamma", DRAWS + "test_sums_have_the_mean_and_variance_of_that_many_draws"),
    ),
    *_of(
        "lost sites",
        ("who waits for a lost site is drawn for", "policies/base.py", "return np.asarray(undecided & (self.problem.weights[list(self.idle)] > 0).any(axis=0))",
         "return np.zeros_like(undecided)", LOST + "test_nothing_is_drawn_for_who_is_blocked"),
        ("the same question is paid by everybody", "problem.py", "first[np.unique(self.weights, axis=1, return_index=True)[1]] = True",
         "first[:] = True", LOST + "test_agents_with_the_same_weights_pay_for_one_question"),
        ("re-weighing goes on from the old state", "protocol/trial.py", "asked = replace(asked, state=states[-1] if states else start)",
         "asked = replace(asked, state=trial.state)", ANEW + "test_the_state_is_that_of_a_study_that_asked_from_the_start"),
        ("re-weighing forgets a phase", "protocol/lost_sites.py", "for totals in past:",
         "for totals in past[1:]:", ANEW + "test_the_state_is_that_of_a_study_that_asked_from_the_start"),
        ("every question may spend all of delta", "protocol/lost_sites.py", "return LOSSES * _one_of_many(len(places)) / lost",
         "return 1.0", "tests/correctness/test_lost_sites.py::test_trying_every_set_of_six_sites_on_the_rewards_keeps_the_error_below_delta"),
        ("a share of delta forgets how many sets of sites there are", "protocol/lost_sites.py", "return LOSSES * _one_of_many(len(places)) / lost",
         "return LOSSES * _one_of_many(len(places))", ANEW + "test_the_shares_of_all_questions_that_can_be_asked_anew_sum_to_at_most_one"),
        ("a share of delta forgets the decimals of given weights", "protocol/lost_sites.py", "share *= _one_of_many(decimals + 1)",
         "share *= 1.0", ANEW + "test_the_shares_of_all_questions_that_can_be_asked_anew_sum_to_at_most_one"),
        ("a question asked anew is claimed as if no other could have been asked", "protocol/lost_sites.py", "if how and policy.bounds_errors:",
         "if not guarantee:", ANEW + "test_a_re_weighed_study_spends_its_share_and_claims_the_whole_of_delta"),
        ("a lost site keeps half of its weight", "protocol/lost_sites.py", "rest[places] = 0.0",
         "rest[places] *= 0.5", ANEW + "test_six_sites_one_lost_re_weighed_everybody_else_is_decided"),
        ("wcpe draws on for what could only just be told apart", "policies/wcpe.py", "OTHERS = 0.1",
         "OTHERS = 0.0", ENDS + "test_wcpe_does_not_draw_without_an_end_for_what_could_only_just_be_told_apart"),
        ("wcpe halves its goal for phases of another question", "policies/wcpe.py", "halved &= self._reached(after)",
         "halved &= True", "tests/trials/test_six_sites.py::test_it_ends_and_re_weighed_it_answers_the_rest"),
    ),
    *_of(
        "private reports",
        ("private sums pay no toll", "rewards/binary.py", "base -= noise / 2 * np.einsum", "base -= 0 * np.einsum",
         PRIVATE + "test_a_bet_on_private_rates_is_fair_with_its_toll_and_not_without"),
        ("a contrast of private sums is as sure as one of exact sums", "problem.py", "self.noise_variance * releases * reciprocals",
         "0 * releases * reciprocals", PRIVATE + "test_a_bet_by_the_range_is_fair_with_noise"),
        ("a bound on a gap pays no toll", "rewards/intervals.py", "won = won - np.square(steepest) * noise", "won = won - 0 * noise",
         PRIVATE + "test_a_bound_on_a_gap_is_fair_with_noise"),
        ("an interval of private rates pays no toll", "rewards/intervals.py", "powers = powers + noise_toll(", "powers = powers + 0 * noise_toll(",
         PRIVATE + "test_an_interval_of_rates_is_what_fair_bets_leave"),
    ),
    *_of(
        "arms",
        ("a withdrawn arm stays an opponent", "policies/base.py", '"active": np.broadcast_to(self.candidates, shape).copy(),', '"active": np.ones(shape, dtype=np.bool_),',
         ARMS + "test_what_a_withdrawn_arm_had_beaten_can_win"),
        ("an arm opens with the wealth of another", "policies/evidence/racing.py", "log_wealth=np.where(racing, wealth, state.log_wealth),",
         "log_wealth=np.where(racing, np.where(self._new(state)[..., None, :, :], wealth.max(axis=-2, keepdims=True), wealth), state.log_wealth),",
         ARMS + "test_the_first_draws_of_a_new_arm_only_inform"),
        ("errors are looked for where none can happen", "experiments/forecasts/dossier.py", "BEYOND, WITHIN = 1.05,", "BEYOND, WITHIN = 0.95,",
         "tests/experiments/forecasts/test_dossier.py::test_errors_are_looked_for_where_they_can_happen"),
        ("none of many studies is taken for never", "experiments/forecasts/scenarios.py", "betaincinv(count + 1, studies - count, CONFIDENCE)", "betaincinv(count + 1e-9, studies - count, CONFIDENCE)",
         "tests/experiments/forecasts/test_dossier.py::test_none_of_many_still_has_a_bound"),
        ("looks of a group-sequential design share no error", "experiments/forecasts/designs.py", "math.log(crossing_probabilities(at, looks).sum() / level)", "math.log(crossing_probabilities(at, looks).max() / level)",
         "tests/experiments/forecasts/test_designs.py::test_critical_values_and_what_is_spent_are_those_of_rpact"),
        ("other weights are judged by the study's own", "protocol/sensitivity.py", "asked = problem.with_(weights=weights, delta", "asked = problem.with_(weights=problem.weights, delta",
         "tests/protocol/test_sensitivity.py::test_an_answer_stays_where_it_is_best_and_the_other_is_named_where_not"),
        ("what holds for all readers spends all of delta at every step", "protocol/sensitivity.py", "shares = (1.0, 1.0 / len(path.values))", "shares = (1.0, 1.0 - 1e-9)",
         "tests/protocol/test_sensitivity.py::test_what_holds_has_its_share_of_delta_and_what_is_proven_all_of_it"),
        ("a range runs across a corner of the weights", "protocol/sensitivity.py", "joined = self.path.straight or 0.0 in values", "joined = True",
         "tests/protocol/test_sensitivity.py::test_a_range_needs_its_corner"),
        ("a question without arms may spend all of delta", "protocol/lost_sites.py", "return share_without(len(study.arms), len(withdrawn)) * share_of_delta(study, weights, frozen)",
         "return share_of_delta(study, weights, frozen)", ARMS + "test_what_a_withdrawn_arm_had_beaten_can_win"),
    ),
    *_of(
        "rewards",
        ("a report of yes or no may hold the sums of any range", "rewards/binary.py", "return two_valued_flaw(count, total, square)",
         "return super().flaw(count, total, square)", "tests/rewards/test_cells.py::test_the_model_says_what_its_rewards_can_be"),
    ),
    *_of(
        "site",
        ("who came outside is told again with every report", "agent/site.py", "for person in self.people.persons.values()) - earlier + book.reserve", "for person in self.people.persons.values()) + book.reserve",
         SITE + "test_where_the_plan_must_be_met_the_missing_are_replaced_by_people_drawn_from_the_whole_plan"),
        ("a mark as missing gives its place to the next person", "agent/people.py", "if not self.full:",
         "if True:\n            return [max(n - given + gone, 0) for n, given, gone in zip(self.asked, self.assigned, self.missing)]\n        if not self.full:", SITE + "test_nobody_chooses_an_arm_by_marking_people_as_missing"),
        ("an arm that was withdrawn is given on", "agent/people.py", "return [given if arm in self.closed_arms else asked for arm, asked, given in lines]",
         "return [asked for arm, asked, given in lines]", SITE + "test_an_arm_that_is_withdrawn_in_mid_phase_is_given_to_nobody[False]"),
        ("a mark is taken back after others were assigned", "agent/site.py", "len(book.keys) > person.marked_at", "len(book.keys) > 10**9",
         SITE + "test_where_the_plan_must_be_met_the_missing_are_replaced_by_people_drawn_from_the_whole_plan"),
        ("a complete phase is reported before its grace is over", "agent/site.py", "(at := self._sends_at(book)) > self.clock()", "(at := self._sends_at(book)) > self.clock() + timedelta(days=99)",
         PAGE + "test_a_complete_phase_can_be_mended_until_its_grace_is_over_whatever_happens_to_the_service"),
        ("a key that reads like another is assigned", "agent/site.py", "if (similar := self.people.similar(key)) and not somebody_else:", "if (similar := self.people.similar(key)) and False:",
         PAGE + "test_a_key_that_reads_like_another_is_asked_about_before_anybody_is_assigned[bx-001]"),
        ("what may be thousands is taken for a decimal", "agent/tables.py", "doubtful = thousands and THOUSANDS[thousands].fullmatch(text)", "doubtful = None",
         "tests/agent/test_site_languages.py::test_a_decimal_comma_is_one_where_the_language_writes_it_and_thousands_are_never_guessed[en-1,250-None]"),
        ("every site sees its answer", "coordinator/reading/studies.py", "if message.problem.show_answer else None", "if True else None",
         PAGE + "test_a_finished_study_tells_a_site_its_answer_only_if_it_says_so[False]"),
        ("the guarantee stays whatever is missing", "protocol/certificate.py", "if worst[0][0] > limit:", "if worst[0][0] > 2:",
         DEVIATIONS + "test_phases_that_a_site_drops_are_in_the_certificate_and_withdraw_the_guarantee"),
        ("counts have no limit", "protocol/report_checks.py", "max(int(flexible.most_times_plan * asked), flexible.minimum_cell)", "10**18",
         DEVIATIONS + "test_counts_of_many_times_the_plan_are_refused_unless_the_study_states_it"),
    ),
    *_of(
        "feature flags",
        ("an evaluation draws anew for a visitor who has an arm", "edges/flags/flags.py", "self._given(participant, ",
         "self._given(f'{participant} {len(self._site.people.persons)}', ", FLAGS + "test_a_flag_is_the_arm_that_the_api_gives_whoever_asks_first"),
        ("an arm is answered that is not in the journal", "agent/site.py", "write(journal.Assigned(participant=key, phase=book.plan.phase, arm=arm, probability=str(share)))",
         "self.people.take(journal.Assigned(participant=key, phase=book.plan.phase, arm=arm, probability=str(share)))", FLAGS + "test_what_is_answered_is_in_the_journal_and_nothing_else_of_the_context"),
        ("an ETag is looked at before the visitor is assigned", "edges/flags/flags.py", 'answer = Evaluations(flags=[await self._evaluated(request)])',
         'answer = Evaluations(flags=[] if "if-none-match" in request.headers else [await self._evaluated(request)])', FLAGS + "test_in_bulk_with_an_etag_that_is_asked_for_only_after_the_arm_is_given"),
        ("of many outcomes one person may have two", "agent/site.py", "if key in seen:", "if False:",
         "tests/site/test_api.py::test_of_many_outcomes_each_is_taken_or_refused_with_the_reason"),
    ),
    *_of(
        "private reports at a site",
        ("the same sums get fresh noise every time", "agent/outbox.py", 'if one["exact"] == exact:', "if False:",
         NOISY + "test_the_same_sums_get_the_same_noise_and_others_are_another_release"),
        ("exact sums leave a private study", "agent/privacy.py", "if self._noise is not None:\n            self._require", "if False:\n            self._require",
         NOISY + "test_the_same_sums_get_the_same_noise_and_others_are_another_release"),
        ("rewards are not clipped", "agent/privacy.py", "rewards = self._study.clipped(delivery.rewards)", "rewards = delivery.rewards",
         NOISY + "test_rewards_are_clipped_where_the_study_says_so_and_sums_stand_on_its_grid"),
        ("releases are not added up", "agent/privacy.py", "number * rho > most", "rho > most",
         NOISY + "test_a_policy_bounds_all_releases_together"),
        ("a held report is sent", "agent/privacy.py", "return self._policy.hold and not", "return False and not",
         "tests/agent/test_site_policy.py::test_a_held_report_leaves_only_when_it_is_released_and_then_as_it_was"),
    ),
    *_of(
        "corrections",
        ("a correction changes what is decided later", "protocol/trial.py", "return replace(trial, corrections=(*trial.corrections, event))",
         "return replace(trial, corrections=(*trial.corrections, event), state=folded(trial.policy, [trial.past[0]])[-1], reports={**trial.reports, event.report.agent: event.report})",
         CORRECTED + "test_a_correction_changes_nothing_that_is_decided_later"),
        ("a certificate does not tell corrections", "protocol/certificate.py", "with_corrections=reread,", "with_corrections=None,",
         CORRECTED + "test_past_decisions_stand_and_the_certificate_tells_how_it_would_read"),
        ("the reading leaves the corrections out", "protocol/corrections.py", "for some in (decided, corrected))", "for some in (decided, decided))",
         CORRECTED + "test_the_reading_is_the_fold_of_the_corrected_phases_along_the_plans_as_they_were"),
        ("a certificate from before a correction stands", "protocol/verify.py", "events.AskedAnew | events.ReportCorrected)", "events.AskedAnew)",
         CORRECTED + "test_a_certificate_that_does_not_tell_is_found"),
        ("of two who correct the last one wins", "protocol/state_machine.py", "if event.replaces != counted.digest:", "if False:",
         CORRECTED + "test_two_who_correct_the_same_report_do_not_overwrite_each_other"),
        ("a lost answer passes for the same one", "protocol/corrections.py", 'np.where(had & ~has, "undecided",', 'np.where(had & ~has, "no",',
         CORRECTED + "test_an_arm_that_would_not_have_been_dropped_then_is_named"),
        ("corrected sums of a private study leave with the old noise's count", "protocol/state_machine.py", "if problem.rho is not None and report.releases is None:", "if False:",
         "tests/coordinator/test_private_study.py::test_a_private_report_is_corrected_by_its_site_alone"),
    ),
    *_of(
        "webhooks",
        ("only the body is signed", "edges/webhooks/sender.py", 'f"{message}.{timestamp}.{body}".encode()', "body.encode()",
         HOOKS + "test_every_phase_and_the_end_are_told_once_and_in_order"),
        ("private addresses are called", "edges/webhooks/sender.py", "if not self._allowed.reaches(address):", "if False:",
         HOOKS + "test_a_name_that_leads_to_a_private_address_is_refused"),
        ("any host is called", "edges/webhooks/subscriptions.py", "if not allowed.names_host(host):", "if False:",
         HOOKS + "test_an_address_that_the_operator_does_not_allow_is_refused"),
        ("redirects are followed", "edges/webhooks/sender.py", "follow_redirects=False", "follow_redirects=True",
         HOOKS + "test_a_redirect_is_a_failure_and_is_not_followed"),
        ("what fails is skipped", "edges/webhooks/subscriptions.py", "    over = gone or row.attempts", "    if to is not None:\n        _move(transaction, to)\n    over = gone or row.attempts",
         HOOKS + "test_what_is_refused_is_sent_again_with_the_same_id_and_what_comes_after_waits"),
        ("everybody is told of held reports", "edges/webhooks/subscriptions.py", "if kind is not Telling.HELD", "if kind",
         HOOKS + "test_a_held_report_is_told_to_whoever_asked_for_it_and_to_nobody_else"),
        ("two servers send the same", "edges/webhooks/subscriptions.py", "webhooks.c.due_at == row.due_at, ", "", HOOKS + "test_of_two_servers_one_sends"),
    ),
    *_of(
        "network",
        ("this machine's own addresses go through the environment's proxy", "agent/network.py", "if is_loopback(host) or proxy_bypass", "if proxy_bypass",
         NETWORK + "test_the_usual_variables_name_the_proxy"),
        ("a proxy is shown with its password", "agent/network.py", "proxy.netloc.rpartition('@')[2]", "proxy.netloc",
         NETWORK + "test_a_password_is_in_no_message"),
        ("rows of a query are read in any order", "agent/sources.py", "if not self._warehouse.ordered:", "if False:",
         WAREHOUSE + "test_a_wrong_query_is_told"),
        ("totals of another phase are taken", "agent/sources.py", "if count > asked or not", "if not",
         WAREHOUSE + "test_totals_of_a_phase"),
        ("a query may write", "agent/tables.py", '{"connect_args": {"read_only": True}} if file else {}', "{}",
         WAREHOUSE + "test_a_wrong_query_is_told"),
        ("a lock is anybody's", "system/files.py", "if not lock_descriptor(self._file, blocking=False):", "if False:",
         "tests/system/test_files.py::test_a_lock_names_its_holder_and_dies_with_it"),
    ),
    *_of(
        "chain",
        ("hashes of records are not compared", "protocol/verify.py", "if record.hash != record.computed:", "if False:",
         "tests/protocol/test_golden_logs.py::test_a_salt_that_was_changed_shows"),
    ),
    *_of(
        "time stamps",
        ("a time stamp that comes with a log is not compared with it", "protocol/verify.py", "proofs.append(stamp)", "pass",
         STAMPS + "test_a_log_that_was_cut_after_its_last_receipt_is_noticed"),
        ("a time stamp of a log that was cut before it fits", "protocol/verify.py", "if heads.get(sequence) != head:", "if sequence in heads and heads[sequence] != head:",
         STAMPS + "test_a_log_that_was_cut_after_its_last_receipt_is_noticed"),
        ("a time stamp is of any head", "timestamps.py", "if imprint != stamp.head:", "if False:", STAMPS + "test_what_is_handed_in_is_a_stamp_of_a_record_of_the_log"),
        ("anybody's time stamp holds", "timestamps.py", "builder.build().verify(response, bytes.fromhex(stamp.head))", "pass",
         STAMPS + "test_a_stamp_that_does_not_hold_is_noticed"),
        ("an answer that does not end is read on and on", "timestamps.py", "if len(found) > size:", "if False:",
         STAMPS + "test_an_answer_that_does_not_end_is_not_read_to_the_end"),
    ),
    *_of(
        "sign-in",
        ("the log has people by the name they chose", "coordinator/access/oidc.py", 'name = f"{plain} ({kid})"', "name = plain",
         OIDC + "test_nobody_is_logged_as_somebody_else_by_taking_their_name"),
        ("another host of the domain may set the cookies behind a proxy", "dashboard/session.py", ' or settings.public_url.startswith("https://")', "",
         "tests/dashboard/test_session.py::test_under_tls_the_cookie_is_secure_and_bound_to_the_host[settings1]"),
        ("a sign-in that another browser began is taken", "coordinator/access/oidc.py", 'if not secret or not hmac.compare_digest(answer.get("state", "").encode(), _derived(secret, "state").encode()):', "if False:",
         OIDC + "test_an_answer_to_somebody_else_or_to_nobody_is_refused"),
        ("an ID token of any nonce is taken", "coordinator/access/oidc.py", '{"nonce": _derived(secret, "nonce"), "client_id"', '{"client_id"',
         OIDC + "test_an_id_token_that_does_not_hold_is_refused[nonce]"),
        ("an ID token for another client is taken", "coordinator/access/oidc.py", '{"iss": known["issuer"], "aud": client}', '{"iss": known["issuer"]}',
         OIDC + "test_an_id_token_that_does_not_hold_is_refused[audience]"),
        ("a code without its challenge is bought", "coordinator/access/oidc.py", 'code_challenge=create_s256_code_challenge(_derived(secret, "verifier")),', "code_challenge=create_s256_code_challenge('0' * 64),",
         OIDC + "test_somebody_whom_the_provider_knows_signs_in_and_out"),
        ("a sign-in of long ago signs", "coordinator/access/oidc.py", "if signed_in < asked - LEEWAY:", "if False:",
         OIDC + "test_nothing_is_signed_unless_the_same_person_signs_in_anew[old auth_time]"),
        ("who was revoked signs in again", "coordinator/access/tokens.py", "if row is not None and row.revoked_at is not None:", "if False:",
         OIDC + "test_a_person_has_the_role_of_the_last_sign_in_and_none_once_revoked"),
    ),
    *_of(
        "access",
        ("a token reaches every study", "coordinator/access/tokens.py", "return self.study is None or self.study == study", "return True",
         "tests/coordinator/test_promise_09_access.py::test_the_whole_matrix[over HTTP]"),
        ("results are shown and nobody is told", "coordinator/http/guard.py", "if self.results and principal.role in UNBLINDED:", "if False:",
         SIGNED + "test_who_sees_results_while_the_study_goes_on_is_in_its_log_once_a_phase"),
        ("an export goes on into phases in which nobody is told of it", "coordinator/http/routes/administration.py", 'await record_read(call, "export_log")', "pass",
         SIGNED + "test_an_export_that_lasts_longer_than_a_phase_is_a_read_in_both"),
        ("a status tells means and nobody is told of it", "coordinator/http/routes/studies.py", "if results:", "if False:",
         SIGNED + "test_a_status_that_tells_means_is_a_read"),
        ("what somebody wrote is a line of the verification", "cli/verify.py", 'say(" ".join(text.split()))', "say(text)",
         "tests/cli/test_verify.py::test_what_somebody_wrote_is_no_line_of_ours"),
        ("every look is written", "coordinator/studies/acts.py", "or already_read(transaction, row, actor, after=after):", "or False:",
         SIGNED + "test_two_looks_at_once_are_one_record"),
        ("an open session signs", "coordinator/http/routes/administration.py", "if again != call.by:", "if False:",
         SIGNED + "test_a_signature_needs_the_token_again_and_changes_nothing_else"),
    ),
    *_of(
        "pages",
        ("a page names what a certificate may leave out", "dashboard/pages/answer.py", "dict.fromkeys(Certificate.known_keys()) | found", "found", RENDERED),
        ("a rule claims the proof of the one it inherits from", "policies/base.py", 'bool(vars(type(self)).get("proven", False))', "self.proven",
         "tests/policies/test_outside.py::test_a_rule_that_inherits_claims_nothing_unless_it_says_so[evidence]"),
        ("a coordinator may promise less later", "agent/privacy.py", 'if terms.get(name) != earlier["terms"].get(name):', "if False:",
         NOISY + "test_an_agent_holds_the_coordinator_to_the_terms_of_its_first_start[later0]"),
        ("noise that is lost is not counted", "agent/outbox.py", 'lost = max(found.get("lost", 0), self._sent_before(phase) - len(known))', "lost = 0",
         NOISY + "test_noise_that_is_lost_counts_as_a_release"),
        ("a command gets the passwords of the agent", "agent/sources.py", 'variable.upper().startswith("PARLEY_")', 'variable == "PARLEY_TOKEN"',
         "tests/agent/test_worker.py::test_a_command_as_source"),
        ("an arm is an option of a command", "agent/sources.py", 'if arm.startswith("-") and', "if False and",
         "tests/agent/test_worker.py::test_an_arm_is_no_option_of_a_command[--help]"),
        ("keys that differ by a point are two people", "agent/people.py", 'return "".join(filter(_is_said, plain)) or plain', "return plain",
         PAGE + "test_a_key_that_reads_like_another_is_asked_about_before_anybody_is_assigned[BX.001]"),
        ("a key that no key of the study looks like is assigned", "agent/site.py", "if fits(key, pattern):", "if True:", PAGE + "test_a_study_may_say_how_keys_look"),
        ("a direction that so few studies cannot tell", "experiments/forecasts/dossier_page.py", "<= 2 * error", "<= 0 * error",
         "tests/experiments/forecasts/test_dossier.py::test_a_direction_is_that_of_the_table_and_only_where_so_many_studies_can_tell"),
        ("the final report shows markup", "dashboard/pages/report.py", "str(page).replace(", "page.replace(", RENDERED),
        ("an interval holds what cannot be", "estimates.py", "return np.clip(values, self.least, self.most)", "return values",
         "tests/test_estimates.py::test_what_is_told_lies_in_the_range_of_the_rewards[binary]"),
        ("what users wrote is markup in the final report", "experiments/report_kit/prose.py", "block.markdown(as_text)", "block.markdown()",
         REPORT + "test_it_says_who_decided_what_and_why"),
        ("draws of a phase that is not decided count", "coordinator/reading/progress.py", 'flow["undecided"][:, place] += ', 'flow["counted"][:, place] += ',
         REPORT + "test_the_flow_is_what_the_reports_add_up_to"),
        ("the tolerance is drawn on one side", "dashboard/charts.py", 'band = {"x": x(-within)', 'band = {"x": x(0.0)', REPORT + "test_a_tolerance_is_drawn_where_arms_are_compared"),
        ("a policy without a guarantee has an error probability", "dashboard/render.py", "if says(guarantee, NO_GUARANTEE):", "if False:",
         CLAIMS + "test_the_error_probability_is_that_of_the_guarantee"),
        ("a guarantee that is withdrawn has an error probability", "dashboard/render.py", "if says(guarantee, WITHDRAWN):", "if False:",
         CLAIMS + "test_an_answer_whose_reports_left_out_too_much_has_no_guarantee"),
        ("the true best is said to be a candidate, also with a tolerance", "text/formatting.py", "if tolerance:  # the true best may be gone", "if False:  # the true best may be gone",
         "tests/dashboard/test_estimates.py::test_what_is_said_of_the_candidates_is_what_is_proven_of_them"),
        ("everybody reads the researcher's words", "dashboard/session.py", 'with reading(values.get("audience", "bandit")):', 'with reading("bandit"):',
         AUDIENCES + "test_nor_one_of_an_experiment"),
        ("a name within a message is markup", "dashboard/render.py", "name: escape(value) for", "name: value for", AUDIENCES + "test_a_name_in_a_message_is_text"),
        ("a language hides the words of an audience in it", "text/translation.py", '(f"{language}_{audience}", language, audience)', '(language, f"{language}_{audience}", audience)',
         "tests/text/test_translation.py::test_a_message_is_looked_up_by_language_and_audience_then_language_then_audience_then_it_stays"),
    ),
]  # fmt: skip
