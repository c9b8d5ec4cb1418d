"""Requests made by schemathesis from the OpenAPI document: no 5xx, and every refusal a problem document."""

import warnings
from collections import Counter

import httpx2
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.coordinator.support import report_of, study_message


def fuzz(house, *, examples, number=0):
    """`examples` requests per operation; another `number`, other requests. Returns counts and every failure."""
    message = study_message(agents=2, arms=3, policy="uniform")
    agents = house.create(message, "fuzzed")
    agents[0].send(report_of(agents[0].plan("fuzzed", "agent 1"), 0))
    tokens = [house.token, house.tokens["fuzzed", "agent 1"]]
    statuses, failures = Counter(), []
    document = house.admin.request("GET", "openapi.json")
    schema = schemathesis.openapi.from_dict(document)
    http = httpx2.Client(base_url=house.url, trust_env=False, timeout=30)
    operations = [result.ok() for result in schema.get_all_operations()]
    for operation in operations:
        if not operation.path.endswith("/events"):  # never ends; its parameters are those of the others
            _fuzz_operation(operation, house, http, tokens, examples, number, statuses, failures)
    http.close()
    return {
        "operations": len(operations),
        "requests": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "failures": failures,
    }


def _fuzz_operation(operation, house, http, tokens, examples, number, statuses, failures):
    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), token=st.sampled_from(tokens), known=st.booleans())
    def one(case, token, known):
        request = case.as_transport_kwargs(base_url=house.url)
        url = request["url"]
        if known and "study" in (case.path_parameters or {}):
            url = url.replace(f"/studies/{_quoted(case.path_parameters['study'])}", "/studies/fuzzed")
        headers = {**dict(request.get("headers") or {}), "Authorization": f"Bearer {token}"}
        try:
            response = http.request(
                request["method"],
                url,
                params=request.get("params"),
                json=request.get("json"),
                headers={key: value for key, value in headers.items() if _sendable(key, value)},
            )
        except (httpx2.InvalidURL, UnicodeError):  # cannot be sent by any client
            return
        statuses[response.status_code] += 1
        if response.status_code >= 500 or (
            response.status_code >= 400 and response.headers["content-type"] != "application/problem+json"
        ):
            failures.append((operation.label, response.status_code, response.text[:300], str(request)[:300]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one()


def _quoted(value):
    from urllib.parse import quote

    return quote(str(value), safe="")


def _sendable(key, value):
    try:
        f"{key}{value}".encode("ascii")
    except UnicodeError:
        return False
    return "\n" not in value and "\r" not in value and "\x00" not in value
