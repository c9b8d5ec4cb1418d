"""Balance per stratum, and what the numbers of kits tell; `python -m tools.correctness strata` is the long form."""

from tools.correctness.strata import filled, guesses

NUMBER = "the number of the kit, and the arms of all before it"


def test_every_block_is_its_plan_and_a_kits_number_tells_nothing_where_numbers_are_random():
    people, worst = filled(6, shuffled=True)
    assert (worst, len({kit for _, _, kit, _ in people})) == (0, len(people))
    found = guesses(people)
    assert 0.35 < found[NUMBER] < 0.65
    assert found["the arms of all strata, together"] < 0.75
    ordered, _ = filled(2, shuffled=False)
    assert guesses(ordered)[NUMBER] > 0.9, "numbers by arm mask nothing, whatever is drawn"
