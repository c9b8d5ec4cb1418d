"""Promise 9: nobody acts as somebody else. The whole matrix of role x operation x study, from the OpenAPI document.

What is expected stands in the table of docs/api.md, not in the code that is tested.
"""

import socket
from functools import partial

import httpx2
import pytest
from starlette.responses import JSONResponse
from tests.coordinator.support import study_message
from tests.support import first_quick
from tools.promises import access_table

from parley.coordinator.access.tokens import Role
from parley.coordinator.http.guard import Asked, Operation
from parley.coordinator.http.operations import OPERATIONS
from parley.coordinator.problems import Refusal
from parley.errors import NotAllowed
from parley.testing.access import BODIES, ROLES, access_mistakes, call

PUBLIC = {operation.name for operation in OPERATIONS if operation.public}


@pytest.fixture
def two_studies(sqlite_house):
    message = study_message(agents=2, arms=2, policy="uniform")
    for study in ("mine", "other"):
        sqlite_house.create(message, study)
    return sqlite_house


def from_a_page(house, tokens, asked):
    """The status of the answer, asked by a page on behalf of its reader."""
    place = {key: int(value) if key == "phase" else value for key, value in asked.place.items()}
    credential = f"Bearer {tokens[asked.role]}" if asked.role else ""
    body = BODIES.get(asked.operation)
    request = Asked(app=house.app, credential=credential, place=place, query={}, body=body)
    found = house.application.run(house.app.state.operations[asked.operation].perform(request))
    return found.status if isinstance(found, Refusal) else 200


@pytest.mark.parametrize("way", first_quick("over HTTP", "from a page"))
def test_the_whole_matrix(two_studies, way):
    """`parley qualify` asks the same over HTTP; what is expected is the table of docs/api.md, which has every row."""
    house = two_studies
    tokens = {"administrator": house.token, "agent": house.tokens["mine", "agent 1"]}
    for role in ROLES[1:-1]:
        body = {"role": role, "study": "mine", "name": role}
        tokens[role] = house.admin.request("POST", "tokens", json=body)["token"]
    with httpx2.Client(base_url=house.url, trust_env=False) as http:
        ask = partial(call, http, tokens) if way == "over HTTP" else partial(from_a_page, house, tokens)
        document = house.admin.request("GET", "openapi.json")
        wrong, tried = access_mistakes(document, access_table(), ("agent 1", "agent 2"), ask)
    assert not wrong
    assert tried > 250


def test_a_new_route_is_denied_to_everybody_until_it_is_listed(sqlite_house):
    async def brand_new(_):
        return JSONResponse({"secret": "all of it"})

    row = Operation(tag="studies", method="GET", path="/v1/new", handler=brand_new)
    sqlite_house.app.router.routes.append(row.route)
    with pytest.raises(NotAllowed):
        sqlite_house.admin.request("GET", "new")


def test_a_revoked_token_opens_nothing_at_once_and_two_may_live_for_rotation(house):
    message = study_message(agents=2, arms=2)
    house.create(message)
    body = {"role": "agent", "study": "trial", "agent": "agent 1"}
    second = house.admin.request("POST", "tokens", json=body)
    with pytest.raises(Exception, match="two live tokens"):
        house.admin.request("POST", "tokens", json=body)
    old, new = house.client(house.tokens["trial", "agent 1"]), house.client(second["token"])
    assert old.plan("trial", "agent 1") == new.plan("trial", "agent 1")
    kid = old.request("GET", "whoami")["kid"]
    house.admin.request("DELETE", "tokens", kid)
    with pytest.raises(NotAllowed, match="revoked"):
        old.plan("trial", "agent 1")
    assert new.plan("trial", "agent 1").due
    assert house.admin.request("POST", "tokens", json=body)["principal"] == second["principal"]


@pytest.mark.parametrize(
    "token", ["", "x", "parley_0123456789abcdef_" + "A" * 43, "Bearer", "parley_" + "é" * 3, "parley__"]
)
def test_tokens_that_are_none_open_nothing(sqlite_house, token):
    address = ("127.0.0.1", int(sqlite_house.url.rsplit(":", 1)[1]))
    with socket.create_connection(address) as connection, connection.makefile("rb") as answer:
        head = f"GET /v1/whoami HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        connection.sendall(head.encode())
        status, *rest = answer.read().decode().split("\r\n")
    assert " 401 " in status
    assert "content-type: application/problem+json" in rest


def test_the_wrong_secret_of_a_known_kid_opens_nothing(sqlite_house):
    kid = sqlite_house.token.split("_")[1]
    with pytest.raises(NotAllowed):
        sqlite_house.client(f"parley_{kid}_{'A' * 43}").request("GET", "whoami")


def test_viewers_are_blinded(house):
    message = study_message(policy="uniform")
    house.run(message, house.create(message))
    viewer = house.issue("viewer", name="v", study="trial")
    analyst = house.issue("analyst", name="a", study="trial")
    shown, blinded = (client.request("GET", "studies", "trial", "history") for client in (analyst, viewer))
    assert shown["phases"][0]["explanation"]["mixed_means"]
    assert blinded["blinded"]
    assert all(phase["explanation"] is None for phase in blinded["phases"])
    for hidden in ("certificate", "quarantine"):
        with pytest.raises(NotAllowed):
            viewer.request("GET", "studies", "trial", hidden)


def test_every_role_is_in_the_table():
    assert set(Role) == set().union(*(operation.roles for operation in OPERATIONS))


def test_what_needs_no_token_is_said_so():
    assert {"healthz", "readyz", "metrics", "openapi"} == PUBLIC


def test_the_openapi_document_says_which_token_to_send(two_studies):
    document = two_studies.admin.request("GET", "openapi.json")
    assert set(document["components"]["securitySchemes"]) == {"token", "session"}
    for methods in document["paths"].values():
        for operation in methods.values():
            wanted = [] if operation["operationId"] in PUBLIC else [{"token": []}, {"session": []}]
            assert operation["security"] == wanted
