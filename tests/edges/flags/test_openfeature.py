"""The OpenFeature SDK against a real `parley site` and a real coordinator: sticky over a kill, and in the journal."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from tests.agent.test_site import journal_of
from tests.browser.live import Server
from tests.browser.ward import Ward

pytestmark = pytest.mark.servers
EXAMPLE = Path(__file__).parents[3] / "examples" / "feature_flag.py"
CODE = "open-sesame-42"
STUDY = """\
name = "Checkout"
arms = ["grey", "green", "blue"]
agents = ["France"]
largest_gap = 1.0

[noise]
kind = "bounded"
low = 0.0
high = 1.0
"""


@pytest.fixture
def coordinator(tmp_path):
    made = Server(tmp_path / "coordinator")
    yield made
    made.stop()


@pytest.fixture
def shop(coordinator, tmp_path):
    (tmp_path / "code").write_text(CODE)
    study, options = (
        coordinator.create(STUDY, "checkout-7"),
        ("--code-file", str(tmp_path / "code"), "--flag", "button"),
    )
    made = Ward(coordinator, tmp_path / "shop", study=study, agent="France", options=options)
    made.line.headers["Authorization"] = f"Bearer {CODE}"
    made.wait(lambda found: found["to_assign"] > 0)
    yield made
    made.stop()


def client_of(shop, code=CODE):
    provider = OFREPProvider(shop.url, headers_factory=lambda: {"Authorization": f"Bearer {code}"})
    api.set_provider(provider, domain=code)
    return api.get_client(domain=code)


def details(client, visitor, flag="button"):
    return client.get_string_details(flag, "as ever", EvaluationContext(targeting_key=visitor, attributes={"age": 7}))


def assigned(shop):
    """Participant -> arm, as the journal on the disk has it."""
    entries = [json.loads(line.split(" ", 1)[1])["entry"] for line in journal_of(shop.folder).read_text().splitlines()]
    arms = next(entry["arms"] for entry in entries if entry["schema"] == "parley/site/phase-begun/1")
    assigned = [entry for entry in entries if entry["schema"] == "parley/site/assigned/1"]
    assert len({entry["participant"] for entry in assigned}) == len(assigned), "nobody is drawn twice"
    return {entry["participant"]: arms[entry["arm"]] for entry in assigned}


def test_an_openfeature_client_gets_concealed_sticky_and_logged_assignments(coordinator, shop):
    client = client_of(shop)
    asked = shop.status()["asked"]
    visitors = [f"visitor-{number}" for number in range(asked)]
    arms = {}
    for visitor in visitors[:-2]:
        found = details(client, visitor)
        assert (found.reason, found.error_code, found.variant) == (Reason.SPLIT, None, found.value)
        assert found.flag_metadata["counted"]
        arms[visitor] = found.value
        assert assigned(shop) == arms, "on the disk before it is answered"
    assert set(arms.values()) == {"grey", "green", "blue"}

    shop.stop()  # SIGKILL
    shop.start()
    shop.line.headers["Authorization"] = f"Bearer {CODE}"
    shop.wait(lambda found: found["coordinator"] == "connected")
    assert {visitor: details(client, visitor).value for visitor in arms} == arms
    assert assigned(shop) == arms

    # What an application sees that asks for the wrong thing: its own default, and why.
    wrong = details(client, "visitor-0", flag="checkout-7")
    assert (wrong.value, wrong.error_code) == ("as ever", ErrorCode.FLAG_NOT_FOUND)
    nobody = client.get_string_details("button", "as ever")
    assert (nobody.value, nobody.error_code) == ("as ever", ErrorCode.TARGETING_KEY_MISSING)
    long = details(client, "x" * 201)
    assert (long.value, long.error_code) == ("as ever", ErrorCode.INVALID_CONTEXT)
    assert details(client_of(shop, "another code"), "visitor-0").error_code == ErrorCode.GENERAL
    assert client.get_boolean_details("button", False, EvaluationContext("visitor-0")).error_code == (
        ErrorCode.TYPE_MISMATCH
    )

    # While the study is paused those who are in keep their variant, and others are not assigned.
    coordinator.call("POST", "studies/checkout-7/pause", json={"reason": "a test"})
    shop.wait(lambda found: found["stage"] == "paused")
    paused = details(client, visitors[-1])
    assert (paused.value, paused.reason, paused.error_code) == ("as ever", Reason.DISABLED, None)
    assert "paused (a test)" in paused.flag_metadata["why"]
    assert details(client, "visitor-0").value == arms["visitor-0"]
    coordinator.call("POST", "studies/checkout-7/resume", json={"reason": "it is over"})
    shop.wait(lambda found: found["stage"] == "running")

    # The example of the docs assigns the last two; whoever comes then is outside the study.
    told = subprocess.run(
        [sys.executable, str(EXAMPLE), shop.url, "button", *visitors[-2:], "visitor-late"],
        env={**os.environ, "SITE_CODE": CODE}, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    arms |= {visitor: assigned(shop)[visitor] for visitor in visitors[-2:]}
    lines = [f"{visitor}: {arms[visitor]} (in the study)" for visitor in visitors[-2:]]
    assert told.stdout.splitlines() == [*lines, "visitor-late: as ever (not in the study)"]
    assert assigned(shop) == arms
    assert max(Counter(arms.values()).values()) - min(Counter(arms.values()).values()) <= 1, "the plan"

    rows = [{"participant": visitor, "reward": 1.0} for visitor in [*visitors, "visitor-late"]]
    found = shop.post("/v1/outcomes/bulk", outcomes=rows).json()
    assert (found["taken"], found["refused"]) == (asked, 1)
    assert "outside the study" in found["rows"][-1]["why"]
    shop.wait(lambda found: found["phase"] == 2 or found["reported"])
