"""A site's own policy: what it does not allow is neither drawn nor sent, and the coordinator is told what it would."""

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient
from tests.agent.test_not_fooled import house  # noqa: F401
from tests.agent.test_worker import Coordinator, Source
from tests.coordinator.support import study_message

from parley.agent.outbox import Outbox, release
from parley.agent.privacy import Disclosure, SitePolicy
from parley.agent.reporting import SiteRuntime, hand_over, rules_of, site_of
from parley.agent.worker import Worker
from parley.cli.site import agent_command
from parley.errors import InvalidInput, Rejected
from parley.site.access import Access
from parley.site.app import create_app


def quiet(client, outbox, source, disclosure, **options):
    return Worker(client, outbox, source, disclosure=disclosure, sleep=lambda _: None, patience=0.0, **options)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("smallest_cel = 3", "key: found 'smallest_cel'; allowed: one of hold, largest_rho, smallest_cell, studies"),
        ("smallest_cell = 0", "smallest_cell: found 0; allowed: from 1 to"),
        ("smallest_cell = true", "smallest_cell: found True"),
        ("largest_rho = -1", "largest_rho: found -1; allowed: a finite number above 0"),
        ("largest_rho = nan", "largest_rho: found nan"),
        ('hold = "yes"', "hold: found 'yes'; allowed: true or false"),
        ('studies = ["abc"]', "studies: found ('abc',); allowed: a list of digests"),
        ("studies = []", "studies: found ()"),
        ('studies = "abc"', "studies: found 'abc'"),
        ("hold = ", "allowed: a TOML file that can be read"),
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused_with_its_file(tmp_path, text, words):
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(InvalidInput) as error:
        SitePolicy.load(path)
    assert str(error.value).startswith(str(path))
    assert words in str(error.value)


def test_a_policy_that_is_not_there_is_an_error_before_anything_else(tmp_path):
    done = CliRunner().invoke(
        agent_command, ["--study", "s", "--source", "csv:x", "--policy", str(tmp_path / "none.toml")]
    )
    assert isinstance(done.exception, InvalidInput)
    assert "No such file" in str(done.exception)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (SitePolicy(smallest_cell=10**6), "at least 1000000 people per arm"),
        (SitePolicy(largest_rho=0.1), "rho of at most 0.1 (this study adds no noise)"),
        (SitePolicy(studies=("0" * 64,)), "a study on its list (this one has the digest"),
    ],
)
def test_a_plan_that_breaks_the_policy_is_not_drawn_and_the_coordinator_shows_why(house, tmp_path, policy, words):  # noqa: F811
    message = study_message(agents=2, arms=2, policy="uniform")
    one, _ = house.create(message)
    source, warned = Source(), []
    with Outbox(tmp_path, study="trial", agent="agent 1") as outbox:
        worker = quiet(one, outbox, source, Disclosure(rules_of(message), policy), warn=warned.append)
        worker.step()
        worker.step()
        assert source.calls == [], "nothing is drawn, however often it is asked"
        assert outbox.pending() is None
        assert len(warned) == 1, "somebody at the site is told once"
        assert words in warned[0]
        said = {entry["agent"]: entry["objection"] for entry in house.admin.status("trial")["missing"]}
        assert words in said["agent 1"]
        assert said["agent 2"] is None
        assert not any(arm in said["agent 1"] for arm in message.arms), "blinded readers see it"

        worker = quiet(one, outbox, source, Disclosure(rules_of(message), SitePolicy(studies=(message.digest,))))
        worker.step()
        worker.step()
    assert source.calls[0] == 1, "with a policy that allows it the same plan is drawn"
    assert all(entry["objection"] is None for entry in house.admin.status("trial")["missing"])


def test_an_objection_is_bounded_and_only_the_agents_own(house):  # noqa: F811
    one, two = house.create(study_message(agents=2, arms=2, policy="uniform"))
    house.admin.plan("trial", "agent 1", during=1, objection="by somebody else")
    assert house.admin.status("trial")["missing"][0]["objection"] is None
    with pytest.raises(Rejected):
        one.plan("trial", "agent 1", during=1, objection="x" * 501)
    one.plan("trial", "agent 1", during=1, objection="not so many")
    one.plan("trial", "agent 1", during=2, objection="of another phase")
    assert house.admin.status("trial")["missing"][0]["objection"] is None, "not repeated: withdrawn"
    two.plan("trial", "agent 2", during=1, objection="no noise")
    assert house.admin.status("trial")["missing"][1]["objection"] == "no noise"


class Hearing(Coordinator):
    """Hears what sites say."""

    def plan(self, study, agent, *, after=0, wait=0, **far):
        self.heard = far
        return super().plan(study, agent, after=after, wait=wait)


def test_a_held_report_leaves_only_when_it_is_released_and_then_as_it_was(tmp_path):
    client, source = Hearing(), Source()
    disclosure = Disclosure(None, SitePolicy(hold=True))
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        worker = quiet(client, outbox, source, disclosure)
        for _ in range(4):
            worker.step()
        assert client.taken == {}
        assert source.calls == [1]
        assert client.heard["during"] == 1
        assert "until a person at the site releases it" in client.heard["objection"]
        kept = outbox.pending()
        with pytest.raises(InvalidInput, match="a phase whose report is in the outbox \\(1\\)"):
            release(tmp_path, study="s", agent="a", phase=2)
        assert release(tmp_path, study="s", agent="a", phase=1) == kept
        worker = quiet(client, outbox, source, disclosure)  # another process may have been started since
        worker.step()
        assert client.taken == {1: kept}
        assert source.calls == [1, 2], "and the next phase is drawn, and held"
        worker.step()
        assert list(client.taken) == [1]


def test_a_release_is_of_one_report_and_not_of_whatever_stands_in_its_place(tmp_path):
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        client, disclosure = Hearing(), Disclosure(None, SitePolicy(hold=True))
        quiet(client, outbox, Source(), disclosure).step()
        release(tmp_path, study="s", agent="a", phase=1)
        outbox.set_aside(1)
        again = Source()
        again.calls.append(0)  # other rewards than before
        worker = quiet(client, outbox, again, disclosure)
        worker.step()
        worker.step()
    assert client.taken == {}


def test_a_held_report_of_a_phase_that_was_closed_without_it_is_set_aside(tmp_path):
    client = Hearing()
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        worker = quiet(client, outbox, Source(), Disclosure(None, SitePolicy(hold=True)))
        worker.step()
        client.taken[1] = outbox.pending()  # an administrator closed the phase
        worker.step()
        assert outbox.pending() is None


def test_the_command_releases_what_an_agent_holds(tmp_path, monkeypatch):
    client = Hearing()
    with Outbox(tmp_path, study="s", agent="a") as outbox:
        worker = quiet(client, outbox, Source(), Disclosure(None, SitePolicy(hold=True)))
        worker.step()
        options = ["--study", "s", "--agent", "a", "--outbox", str(tmp_path), "--release", "1"]
        monkeypatch.setenv("PARLEY_TOKEN", "t")
        done = CliRunner().invoke(agent_command, options)
        assert done.exit_code == 0, done.output
        assert "the report of phase 1 (3 samples) is released" in done.output
        worker.step()
    assert list(client.taken) == [1]


def test_a_cell_below_the_sites_own_minimum_is_reported_as_none(house, tmp_path):  # noqa: F811
    message = study_message(agents=1, arms=2)
    (client,) = house.create(message)
    with site_of(tmp_path, client, study="trial", agent="agent 1", policy=SitePolicy(smallest_cell=3)) as site:
        hand_over(site, client, tmp_path)
        arms: dict[str, int] = {}
        for number in range(site.status()["asked"]):
            arm = site.assign(f"p-{number}").arm
            arms[arm] = arms.get(arm, 0) + 1
            if arm == message.arms[0] and arms[arm] > 2:
                site.missing(f"p-{number}")
            else:
                site.outcome(f"p-{number}", 0.5)
        hand_over(site, client, tmp_path)
    sent = client.report("trial", 1, "agent 1")
    assert sent.counts[0] == 0, "two people are fewer than three"
    assert sent.counts[1] > 0


def test_the_page_shows_what_would_be_sent_and_releases_it(house, tmp_path):  # noqa: F811
    message = study_message(agents=1, arms=2)
    (client,) = house.create(message)
    with site_of(tmp_path, client, study="trial", agent="agent 1", policy=SitePolicy(hold=True)) as site:
        hand_over(site, client, tmp_path)
        for number in range(site.status()["asked"]):
            site.assign(f"p-{number}")
            site.outcome(f"p-{number}", 0.5)
        hand_over(site, client, tmp_path)
        assert client.report("trial", 1, "agent 1") is None
        runtime = SiteRuntime(site, client, tmp_path)
        with TestClient(create_app(runtime, Access(host="127.0.0.1")), base_url="http://127.0.0.1") as page:
            shown = page.get("/").text
            assert "A report is waiting to be released" in shown
            page.headers["Sec-Fetch-Site"] = "same-origin"
            wrong = page.post("/", data={"do": "release", "phase": "7"})
            assert wrong.status_code == 422
            done = page.post("/", data={"do": "release", "phase": "1"}).text
            assert "The report of phase 1 is released" in done
            assert "A report is waiting to be released" not in done
        runtime._outbox.close()
        hand_over(site, client, tmp_path)
        assert client.report("trial", 1, "agent 1") is not None
