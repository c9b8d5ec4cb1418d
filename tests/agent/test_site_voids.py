"""An assignment that should not have been: it is voided, its place is filled again, and nobody else's arm changes."""

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.agent.test_site import fill, open_site
from tests.agent.test_site_page import RULES, desk  # noqa: F401
from tests.agent.test_worker import plan
from tests.coordinator.support import study_message
from tools.correctness.concealment import guessed_with_voids

from parley.agent.privacy import Disclosure
from parley.agent.reporting import hand_over, site_of
from parley.cli.site import site_command
from parley.errors import InvalidInput, NotNow, SimilarKey
from parley.totals import Totals

EXACT = replace(RULES, flexible=False)
WHY = {"reason": "the wrong person", "who": "nurse N."}


def arms_of(site):
    return {key: person.arm for key, person in site.people.persons.items()}


@pytest.mark.parametrize("rules", [RULES, EXACT], ids=["flexible", "exact"])
@pytest.mark.parametrize("when", [3, 12], ids=["in mid-phase", "after the last place"])
def test_the_place_is_filled_again_and_nobodys_arm_changes(tmp_path, rules, when):
    with open_site(tmp_path, draws=(6, 6), rules=rules) as site:
        fill(site, when)
        before = arms_of(site)
        site.void("p-1", **WHY)
        site.void("p-1", **WHY)  # twice is once
        assert (site.status()["voided"], site.status()["assigned"]) == (1, when - 1)
        for number in range(when, 100):
            if not site.status()["to_assign"]:
                break
            site.assign(f"p-{number}")
        assert {key: arm for key, arm in arms_of(site).items() if key in before} == before
        living = [person for person in site.people.persons.values() if person.counted]
        assert min(sum(person.arm == arm for person in living) for arm in (0, 1)) == 6
        for person in living:
            site.outcome(person.key, 1.0)
        report = Disclosure(rules).report(plan(draws=(6, 6)), site(plan(draws=(6, 6))), None)
        assert (report.counts, report.voided, report.reason) == ((6, 6), 1, "")
        with pytest.raises(NotNow, match="phase 1 is over"):
            site.void("p-2", **WHY)


def test_a_void_makes_no_arm_likelier_for_the_next_one(tmp_path):
    with open_site(tmp_path, draws=(6, 6)) as site:
        fill(site, 5)
        left = list(site.people.current._left)
        first = site.people["p-0"].arm
        for number in range(5):
            if site.people[f"p-{number}"].arm == first:
                site.void(f"p-{number}", **WHY)
        assert site.people.current._left == left


def test_the_next_arm_is_not_that_of_the_voided_one(tmp_path):
    """Whoever voids somebody of an arm does not choose that arm for the next one, even at the end of a phase."""
    next_arms = set()
    for number in range(12):
        with open_site(tmp_path / str(number), draws=(3, 3), key=bytes([number]) * 32) as site:
            fill(site, 6)
            first = site.people["p-0"].arm
            site.void("p-0", **WHY)
            site.assign("p-6")
            next_arms.add(site.people["p-6"].arm == first)
    assert next_arms == {True, False}


@pytest.mark.parametrize(
    ("rules", "act"),
    [
        (RULES, lambda site: site.close_arms(("x",))),
        (EXACT, lambda site: site.close_arms(("x",))),
        (RULES, lambda site: site.finish("supply")),
    ],
    ids=["flexible", "exact", "closed"],
)
def test_nobody_waits_for_a_replacement_that_the_report_does_not_count(tmp_path, rules, act):
    """The replacement of a voided x may get y. If no more x is needed, y has somebody in reserve."""
    with open_site(tmp_path, draws=(2, 2), rules=rules, key=b"0" * 32) as site:
        voided = next(one for one in fill(site, 4) if one.arm == "x")
        site.void(voided.participant, **WHY)
        assert site.assign("p-4").arm == "y", "the secret of this test draws it"
        act(site)
        for key, person in site.people.persons.items():
            if person.counted and key != "p-4":
                site.outcome(key, 1.0)
        assert (site.status()["to_assign"], site.status()["reserve"], site.status()["pending"]) == (0, 1, 0)
        assert site(plan(draws=(2, 2))).totals == Totals.of([[1.0], [1.0, 1.0]])


def test_a_voided_person_is_never_enrolled_again_and_nothing_is_noted_of_them(desk):  # noqa: F811
    open_ = desk()
    open_.site.assign("BX-1")
    open_.site.void("BX-1", **WHY)
    for again in (lambda: open_.site.assign("BX-1"), lambda: open_.site.outcome("BX-1", 1.0)):
        with pytest.raises(NotNow, match=r"was voided .the wrong person., so this person cannot join the study again"):
            again()
    with pytest.raises(SimilarKey):
        open_.site.assign("bx 1")
    found = open_.post(do="find", sought="bx-1")
    assert "by nurse N.: the wrong person" in found
    open_.close()
    open_.open()
    with pytest.raises(NotNow, match="was voided"):
        open_.site.assign("BX-1")
    assert open_.browser.post("/v1/assignments", json={"participant": "BX-1"}).status_code == 409


def test_nothing_is_voided_after_an_outcome_was_noted_or_without_a_reason_and_a_name(desk):  # noqa: F811
    open_ = desk()
    for key in ("p-1", "p-2", "p-3"):
        open_.site.assign(key)
    open_.site.outcome("p-1", 1.0)
    open_.site.missing("p-2")
    for key in ("p-1", "p-2"):
        with pytest.raises(NotNow, match="voided only before that, and never because of an outcome"):
            open_.site.void(key, **WHY)
    for wrong in ({"reason": " ", "who": "N."}, {"reason": "why", "who": ""}):
        with pytest.raises(InvalidInput, match="a line of 1 to 200 characters"):
            open_.site.void("p-3", **wrong)
    with pytest.raises(InvalidInput, match="the key of a person assigned here"):
        open_.site.void("p-9", **WHY)
    assert open_.site.status()["voided"] == 0


def test_the_page_the_api_and_a_command_void(desk):  # noqa: F811
    open_ = desk(draws=(6, 6))
    for number in range(4):
        open_.site.assign(f"p-{number}")
    assert "Assigned by mistake" in open_.get()
    assert "The assignment of p-0 is voided." in open_.post(do="void", participant="p-0", **WHY)
    kept = open_.post(422, do="void", participant="p-1", reason="", who="nurse N.")
    assert 'value="nurse N."' in kept, "what was typed stays"
    assert open_.browser.post("/v1/voids", json={"participant": "p-1", **WHY}).json()["who"] == "nurse N."
    again = open_.browser.post("/v1/voids", json={"participant": "p-1", "reason": "another", "who": "somebody"})
    assert again.json() == {"participant": "p-1", **WHY}, "the first reason stands"
    said = CliRunner().invoke(
        site_command, ["--outbox", str(open_.folder), "void", "p-2", "--reason", "no consent", "--who", "N."]
    )
    assert said.exit_code == 0, said.output
    assert "3 of 4 assignments were voided." in open_.get(), "too many: somebody should ask"
    assert open_.site.status()["voided"] == 3


@pytest.mark.parametrize(("gone", "warned"), [(1, False), (5, True)])
def test_report_certificate_and_pages_count_voids_and_many_are_a_warning(house, tmp_path, gone, warned):  # noqa: F811
    (client,) = house.create(study_message(agents=1, arms=2))
    with site_of(tmp_path, client, study="trial", agent="agent 1") as site:
        hand_over(site, client, tmp_path)
        for number in range(gone):
            site.assign(f"v-{number}")
            site.void(f"v-{number}", **WHY)
        while site.status()["to_assign"]:
            key = f"p-{site.status()['assigned']}"
            site.assign(key)
            site.outcome(key, 0.5)
        hand_over(site, client, tmp_path)
    assert house.admin.report("trial", 1, "agent 1").voided == gone
    house.admin.request("POST", "studies", "trial", "cancel", json={"reason": "enough"})
    certificate = house.admin.request("GET", "studies", "trial", "certificate")
    certificate = certificate.get("certificate", certificate)
    assert certificate["voided"] == gone
    assert any(f"sites voided {gone} of" in one for one in certificate.get("warnings", ())) == warned


@pytest.mark.simulations
def test_voids_make_the_next_arm_no_easier_to_guess():
    plain = guessed_with_voids(12, 2, share=0.0, phases=150)
    voided = guessed_with_voids(12, 2, share=0.1, phases=150)
    assert plain[0] > 0.05
    assert voided[0] <= plain[0]
    assert voided[1] <= plain[1] + 0.01
