"""Answers are the JSON that was promised, and come back the same for whoever reads them in Python."""

import json

import msgspec
import numpy as np
import pytest
from tests.coordinator.support import study_message

from parley.coordinator.answers import Board, Forecast, History, Studies, StudyStatus
from parley.coordinator.http.guard import encoded
from parley.experiments.forecasts.forecast import forecast_document


@pytest.fixture(scope="module")
def over(tmp_path_factory):
    from tests.coordinator.support import House

    from parley.coordinator.record import initialise, open_storage

    address = str(tmp_path_factory.mktemp("answers") / "parley.db")
    initialise(address)
    storage = open_storage(address)
    house = House(storage)
    message = study_message(agents=2, arms=3, policy="uniform")
    house.run(message, house.create(message))
    yield house
    house.close()
    storage.close()


@pytest.mark.parametrize(
    ("kind", "path"),
    [(StudyStatus, ("trial",)), (Board, ("trial", "board")), (History, ("trial", "history")), (Studies, ())],
)
def test_what_is_read_is_what_was_told(over, kind, path):
    sent = over.admin.request("GET", "studies", *path)
    read = msgspec.convert(sent, kind)
    assert msgspec.to_builtins(read) == sent
    assert json.loads(encoded(read)) == sent


def test_a_status_has_the_settings_of_its_study(over):
    status = msgspec.convert(over.admin.request("GET", "studies", "trial"), StudyStatus)
    assert status.settings["delta"] == 0.1


def test_a_forecast_says_no_more_than_its_class(over):
    from parley.coordinator.reading.progress import latest_state
    from parley.coordinator.record import studies

    def state(connection):
        row = studies.get(connection, "trial")
        return studies.message(connection, row).make_policy(), latest_state(connection, row)

    policy, after = over.storage.read(state)
    for finished in (True, False):
        found = forecast_document(policy, after, (), over=finished)
        plain = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in found.items()}
        assert Forecast(study="trial", **plain).state == "ready"
