"""`parley site` with strata: one token file, one outbox, the stratum named where it must be."""

import json

import pytest
from click.testing import CliRunner
from tests.agent.test_not_fooled import house  # noqa: F401

from parley.cli.main import main
from parley.errors import InvalidInput, NotNow

STUDY = "examples/strata.toml"


@pytest.fixture
def run(house, tmp_path, monkeypatch):  # noqa: F811
    """Commands at Leeds, whose token file an administrator made."""
    monkeypatch.setenv("PARLEY_SERVER", house.url)
    monkeypatch.setenv("PARLEY_OUTBOX", str(tmp_path / "box"))

    def call(*arguments, token=None):
        chosen = {"PARLEY_TOKEN": token} if token else {}
        result = CliRunner().invoke(main, list(map(str, arguments)), env=chosen)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.stdout

    made = call("admin", "create-study", STUDY, "--id", "trial", "--tokens", tmp_path, "--json", token=house.token)
    call.files = json.loads(made)["token_files"]
    return call


def test_the_strata_of_a_site_share_a_token_file_an_outbox_and_its_people(run):
    assert len(set(run.files.values())) == 2
    leeds = ("--study", "trial", "--token-file", run.files["Leeds, young"])
    assert run.files["Leeds, old"] == leeds[-1]
    given = json.loads(run("site", *leeds, "assign", "p-1", "--stratum", "old", "--json"))
    assert (given["stratum"], given["again"]) == ("old", False)
    for named in ((), ("--agent", "Leeds, old"), ("--stratum", "old")):
        assert json.loads(run("site", "assign", "p-1", *named, "--json")) == given | {"again": True}
    for other in (("--agent", "Leeds, young"), ("--stratum", "young")):
        with pytest.raises(NotNow, match="nobody can move to another stratum"):
            run("site", "assign", "p-1", *other)
    with pytest.raises(InvalidInput, match="stratum: found nothing; allowed: old or young"):
        run("site", "assign", "p-2")
    with pytest.raises(InvalidInput, match="stratum: found 'middle'; allowed: old or young"):
        run("site", "assign", "p-2", "--stratum", "middle")
    assert "noted" in run("site", "outcome", "p-1", 1)
    assert "marked as missing" in run("site", "missing", "p-1")
    shown = json.loads(run("site", "status", "--json"))["strata"]
    assert [(one["agent"], one["assigned"]) for one in shown] == [("Leeds, old", 1), ("Leeds, young", 0)]
    assert json.loads(run("site", "status", "--stratum", "old", "--json"))["missing"] == 1
    assert run("site", "status").count("the study is running") == 2
    assert "closed" in run("site", "close", "--reason", "staff", "--stratum", "young")
    with pytest.raises(InvalidInput, match="stratum: found nothing"):
        run("site", "close", "--reason", "staff")


def test_the_service_needs_a_token_for_each_stratum(run, tmp_path):
    leeds = ("--study", "trial", "--token-file", run.files["Leeds, young"])
    run("site", *leeds, "status")
    alone = tmp_path / "alone"
    alone.write_text((tmp_path / run.files["Leeds, young"]).read_text().split()[0])
    with pytest.raises(InvalidInput, match="token: found none for 'Leeds, old'"):
        run("site", "--study", "trial", "--token-file", alone, "--port", 0)
