"""Promise 10, too: any order of legal and illegal moves, with real crashes, leaves the log and the tables agreed."""

import pytest
from hypothesis import Phase, settings
from tools.chaos.machine import Study

pytestmark = pytest.mark.kills

TestStudy = Study.TestCase
TestStudy.settings = settings(
    max_examples=5, stateful_step_count=20, deadline=None, phases=[Phase.explicit, Phase.generate]
)  # a failure is told as it was found: to make it smaller takes minutes of crashes
