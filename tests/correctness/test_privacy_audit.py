"""What reports tell of one person is measured, and stays below what is stated; `tools.correctness.privacy_audit`."""

import pytest
from tools.correctness.privacy_audit import audited

from parley.rewards.privacy import epsilon


@pytest.mark.simulations
def test_reports_tell_no_more_than_is_stated_and_half_the_noise_is_caught():
    assert 0.3 < audited(0.05, 100_000) <= epsilon(0.05)
    assert audited(0.05, 100_000, shrunk=0.5) > epsilon(0.05)
