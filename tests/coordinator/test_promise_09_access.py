"""Promise 9: nobody acts as somebody else. The whole matrix of role x operation x study, from the OpenAPI document.

What is expected stands in the table of docs/api.md, not in the code that is tested.
"""

import re
import socket
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from starlette.responses import JSONResponse
from tests.coordinator.support import study_message

from parley.coordinator.access.tokens import Role
from parley.coordinator.http.guard import Asked, Operation
from parley.coordinator.http.operations import OPERATIONS
from parley.coordinator.problems import Refusal
from parley.errors import NotAllowed

PUBLIC = {operation.name for operation in OPERATIONS if operation.public}
DOCS = Path(__file__).parents[2] / "docs" / "api.md"
ROLES = ["agent", "viewer", "analyst", "auditor", "administrator"]
BODIES = {
    "create_study": {"study": {}},
    "estimate_study": {"study": {}},
    "put_report": {},
    "pause_study": {"reason": "x"},
    "resume_study": {"reason": "x"},
    "cancel_study": {"reason": "x"},
    "freeze_agent": {"reason": "x", "preview": "0" * 64},
    "close_early": {"reason": "x", "preview": "0" * 64},
    "amend_report": {"reason": "x", "report": {}},
    "issue_token": {"role": "viewer", "name": "x"},
    "add_webhook": {"url": "https://example.org/"},
}


def documented():
    """(method, path) -> {role: cell}, from the table of the docs.

    A cell like "`POST /v1/a/pause`, `resume`" names siblings; "`GET`, `POST /v1/b`" two methods of one path.
    """
    rows = {}
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or not cells[0].startswith("`"):
            continue
        methods, path = [], ""
        for quoted in re.findall(r"`([^`]+)`", cells[0]):
            words = quoted.split()
            if words[0].isupper():
                methods = [*([] if path else methods), words.pop(0)]
            if words:
                path = words[0].split("?")[0] if words[0].startswith("/") else f"{path.rsplit('/', 1)[0]}/{words[0]}"
                rows |= {(method, path): dict(zip(ROLES, cells[1:], strict=True)) for method in methods}
    return rows


def operations(house):
    """(operation, method, path template) of every operation of the OpenAPI document."""
    document = house.admin.request("GET", "openapi.json")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield operation["operationId"], method.upper(), path


@pytest.fixture
def two_studies(sqlite_house):
    message = study_message(agents=2, arms=2, policy="uniform")
    for study in ("mine", "other"):
        sqlite_house.create(message, study)
    return sqlite_house


def call(http, token, operation, method, path, *, study, agent):
    address = path.replace("{study}", study).replace("{agent}", quote(agent))
    address = address.replace("{phase}", "1").replace("{kid}", "0" * 16).replace("{arm}", "arm%201")
    address = address.replace("{webhook}", "wh_0")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    body = {"json": BODIES[operation]} if operation in BODIES else {}
    with http.stream(method, address, headers=headers, **body) as response:
        if operation not in ("follow_study", "follow_studies"):  # which never end
            response.read()
        return response.status_code


def from_a_page(house, token, operation, _, path, *, study, agent):
    """The same, asked by a page on behalf of its reader."""
    known = {"study": study, "agent": agent, "phase": 1, "kid": "0" * 16, "arm": "arm 1", "webhook": "wh_0"}
    place = {key: value for key, value in known.items() if f"{{{key}}}" in path}
    credential = f"Bearer {token}" if token else ""
    asked = Asked(app=house.app, credential=credential, place=place, query={}, body=BODIES.get(operation))
    found = house.application.run(house.app.state.operations[operation].perform(asked))
    return found.status if isinstance(found, Refusal) else 200


def test_the_docs_list_every_operation(two_studies):
    rows = documented()
    for _, method, path in operations(two_studies):
        assert (method, path) in rows, f"{method} {path} is not in docs/api.md"


@pytest.mark.parametrize("asked", ["over HTTP", "from a page"])
def test_the_whole_matrix(two_studies, asked):
    house, rows = two_studies, documented()
    tokens = {}
    for role in ROLES:
        if role == "administrator":
            tokens[role] = house.token
            continue
        scope = {"study": "mine", "agent": "agent 1"} if role == "agent" else {"study": "mine", "name": role}
        if role == "agent":
            tokens[role] = house.tokens["mine", "agent 1"]
        else:
            tokens[role] = house.admin.request("POST", "tokens", json={"role": role, **scope})["token"]
    wrong, tried = [], 0
    http = httpx2.Client(base_url=house.url, trust_env=False)
    for operation, method, path in operations(house):
        for role in [None, *ROLES]:
            for study in ("mine", "other") if "{study}" in path else ("mine",):
                for agent in ("agent 1", "agent 2") if "{agent}" in path else ("agent 1",):
                    token = tokens[role] if role else None
                    way, line = (call, http) if asked == "over HTTP" else (from_a_page, house)
                    status = way(line, token, operation, method, path, study=study, agent=agent)
                    expected = _expected(rows[method, path], operation, role, study, agent)
                    outcome = {401: "no token", 403: "denied"}.get(status, "allowed")
                    tried += 1
                    if outcome != expected or status >= 500:
                        wrong.append((operation, role, study, agent, status, expected))
    http.close()
    assert not wrong
    assert tried > 250


def _expected(row, operation, role, study, agent):
    if operation in PUBLIC:
        return "allowed"
    if role is None:
        return "no token"
    cell = row[role]
    if not cell or (cell == "its own" and agent != "agent 1"):
        return "denied"
    if role == "administrator":
        return "allowed"
    if operation == "get_server_log":
        return "denied"  # these tokens are bound to a study
    return "allowed" if study == "mine" else "denied"


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
