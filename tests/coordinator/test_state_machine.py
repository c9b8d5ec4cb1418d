"""Promise 10, too: any order of legal and illegal moves, with real crashes, leaves the log and the tables agreed."""

from hypothesis import settings
from tests.chaos.machine import Study

TestStudy = Study.TestCase
TestStudy.settings = settings(max_examples=8, stateful_step_count=20, deadline=None)
