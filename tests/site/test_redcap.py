"""Outcomes come in, and allocations go out, as a REDCap project has them."""

import csv
import io

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from tests.site.test_kits import ARMS, RULES, kits
from tests.site.test_kits import leeds as masked  # noqa: F401

from parley.agent.outcomes import OutcomeRules
from parley.agent.redcap import allocations_out, outcomes_in, take
from parley.agent.site import Site
from parley.agent.strata import Strata
from parley.cli.site import site_command
from parley.errors import InvalidInput

OPEN = replace(RULES, kits=False, arms=(), outcomes=(OutcomeRules(name="pain", low=0.0, high=10.0),))
EXPORT = """study_id,redcap_event_name,redcap_data_access_group,wound_closed,pain,visit_complete
p-1,baseline_arm_1,leeds,,4,2
p-1,day_14_arm_1,leeds,1,,2
p-2,day_14_arm_1,leeds,-999,7.5,0
=3,day_14_arm_1,leeds,No,,0
"""
FIELDS = {"reward": "wound_closed"}


@pytest.fixture
def leeds(tmp_path):
    sites = [
        Site(tmp_path, study="trial", agent=f"Leeds, {name}", rules=replace(OPEN, stratum=name))
        for name in ("old", "young")
    ]
    for site in sites:
        site.begin(phase=1, plan="b" * 64, arms=ARMS, draws=(4, 4))
    made = Strata(sites)
    made.assign("p-1", "old")
    made.assign("p-2", "young")
    made.assign("=3", "young")
    yield made
    made.close()


def read(leeds, text, source="export.csv"):
    return take(outcomes_in(text.encode(), source, leeds, FIELDS, ("-999",)), source, leeds)


def test_an_export_with_events_groups_and_codes_is_taken_and_the_same_again_changes_nothing(leeds):
    for _ in range(2):
        assert read(leeds, EXPORT) == 5
    old, young = (site.people for site in leeds.sites)
    assert (old["p-1"].reward, old["p-1"].value("pain")) == (1.0, 4.0)
    assert (young["p-2"].missing, young["p-2"].value("pain"), young["=3"].reward) == (True, 7.5, 0.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            EXPORT + "p-9,day_14_arm_1,leeds,1,,0\n",
            "line 6, column wound_closed: found 'p-9'; allowed: the key of a person",
        ),
        (
            EXPORT + "p-1,day_28_arm_1,leeds,0,,0\n",
            "line 6, .* another value of 'p-1'; .* in line 3",
        ),
        (EXPORT.replace("7.5", "11"), "line 4, column pain: found 11.0; allowed: a number from 0 to 10"),
        (EXPORT.replace("7.5", "much"), "line 4, column pain: found 'much'"),
        ("record_id,age\np-1,50\n", "line 1: found the columns record_id, age; allowed: a record's id in the first"),
    ],
)
def test_a_wrong_export_is_a_sentence_and_nothing_of_it_is_taken(leeds, text, says):
    with pytest.raises(InvalidInput, match=says):
        read(leeds, text)
    assert not any(site.status()["observed"] for site in leeds.sites)


def test_what_goes_out_comes_in_again_and_no_cell_is_a_formula(leeds):
    read(leeds, EXPORT)
    leeds.assign("p-4", "old")
    leeds.void("p-4", reason="by mistake", who="me")
    text = allocations_out(leeds, FIELDS)
    rows = {row["record_id"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["p-1"]["redcap_data_access_group"] == "Leeds"
    assert (rows["p-1"]["stratum"], rows["p-1"]["wound_closed"], rows["p-1"]["pain"]) == ("old", "1.0", "4.0")
    assert rows["p-1"]["allocation"] == "", "the site is masked"
    assert rows["p-4"]["voided"] == "1"
    assert "'=3" in rows
    assert read(leeds, text) == 4, "the mark as missing is no value"


def test_arms_go_out_where_the_site_is_not_masked_and_to_somebody_who_may_see_them(leeds):
    assert not any(arm in allocations_out(leeds, {}) for arm in ARMS)
    assert any(arm in allocations_out(leeds, {}, with_arms=True) for arm in ARMS)
    for site in leeds.sites:
        site.people.rules = replace(site.people.rules, masked=False)
    assert any(arm in allocations_out(leeds, {}) for arm in ARMS)


def test_a_masked_study_sends_out_kits_and_no_arm(masked):  # noqa: F811
    masked.list_kits(kits(*range(20)), "kits.csv")
    kit = masked.assign("p-1", "old").kit
    text = allocations_out(masked, {})
    assert f"p-1,Leeds,old,{kit}," in text
    assert not any(arm in text for arm in ARMS)


@pytest.mark.usefixtures("leeds")
def test_the_commands(tmp_path):
    (tmp_path / "export.csv").write_text(EXPORT)

    def run(*arguments):
        result = CliRunner().invoke(site_command, ["--outbox", str(tmp_path), *arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.stdout

    named = ("--field", "reward", "wound_closed")
    assert "5 outcomes noted." in run("import", str(tmp_path / "export.csv"), *named, "--missing", "-999")
    run("export", str(tmp_path / "out.csv"), *named)
    assert not any(arm in (tmp_path / "out.csv").read_text() for arm in ARMS)
    run("export", str(tmp_path / "out.csv"), *named, "--with-arms")
    assert any(arm in (tmp_path / "out.csv").read_text() for arm in ARMS)
    assert (tmp_path / "out.csv").read_text().startswith("record_id,redcap_data_access_group,stratum,allocation,")
    with pytest.raises(InvalidInput, match="--field: found 'cost'; allowed: reward, pain"):
        run("export", str(tmp_path / "out.csv"), "--field", "cost", "x")
