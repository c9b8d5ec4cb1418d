"""Fuzzed requests: from the OpenAPI document by schemathesis, and valid requests with one or two changes.

Most name an existing study, agent, phase or token and come from a caller with permission, so that they pass the first
checks. Every answer is checked: no 5xx, refusals are problem documents as in docs/api.md, successes match the OpenAPI
document, and after each operation the logs of the studies verify.
"""

import random
import warnings
from collections import Counter
from urllib.parse import quote

import httpx2
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tools.chaos.bodies import CHANGES, RAW, altered, encoded
from tools.chaos.world import FINISHED, MESSAGE, READERS, World, documented_problems

SHORT = "0.02"  # seconds that a request may ask to wait
DEEPER = 3  # factor on the number of requests for operations with a body
RIGHT = "right"  # a caller with permission
ASKERS = (*MESSAGE.agents, *READERS, "session", "session", "revoked", "nobody", "garbage")
CHOICES = {
    "who": [RIGHT] * 24 + [*ASKERS],
    "study": ["live"] * 12 + [FINISHED] * 4 + ["generated"],
    "agent": [*MESSAGE.agents] * 6 + ["generated"],
    "phase": ["1"] * 3 + ["now"] * 14 + ["2"] + ["3", "0", "generated"],
    "kind": ["schema"] * 3 + ["right"] * 5 + ["altered"] * 8 + ["raw"] * 2,
    "method": [None] * 60 + ["PATCH", "DELETE", "PUT", "POST", "OPTIONS", "HEAD"],
    "receipt": ["none"] * 3 + ["held"] * 4 + ["generated", "unknown"],
    "raw": RAW,
    "straight": [True] * 3 + [False] * 2,
}
STRAIGHT = {"who": RIGHT, "study": "live", "phase": "now", "method": None, "receipt": "none"}  # valid but for the body
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def fuzz(house, *, examples, number=0, only=()):
    """Send `examples` requests per operation, more if it has a body; returns counts and every failure.

    `number` seeds the requests; `only` restricts them to the named operations.
    """
    import schemathesis  # imported here: tests that only read the table of parts run without it

    schema = schemathesis.openapi.from_dict(house.admin.request("GET", "openapi.json"))
    operations = [result.ok() for result in schema.get_all_operations()]
    if only:
        operations = [operation for operation in operations if operation.definition.raw["operationId"] in only]
    statuses, failures = Counter(), []
    with httpx2.Client(base_url=house.url, trust_env=False, timeout=30) as http:
        world = World(house)
        for operation in operations:
            _Fuzzed(operation, world, http, statuses, failures).run(
                examples * (DEEPER if operation.body else 1), number
            )
            failures += [(operation.label, "the log does not verify", *wrong) for wrong in world.unsound()]
    return {
        "operations": len(operations),
        "requests": sum(statuses.values()),
        "statuses": {str(status): count for status, count in sorted(statuses.items())},
        "failures": failures,
    }


class _Fuzzed:
    """One operation, and the results of its requests."""

    def __init__(self, operation, world, http, statuses, failures):
        self.operation, self.world, self.http = operation, world, http
        self.name = operation.definition.raw["operationId"]
        self.statuses, self.failures, self.problems = statuses, failures, documented_problems()

    def run(self, examples, number):
        names = [parameter.name for parameter in self.operation.path_parameters]
        chance = random.Random(f"{number} {self.name}")  # independent choices, since hypothesis varies earlier ones

        @seed(number)
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(self.operation.as_strategy(path_parameters=dict.fromkeys(names, "x")), CHANGES, TEXT)
        def one(case, changes, text):
            drawn = {name: chance.choice(values) for name, values in CHOICES.items()}
            self.send(drawn | {"case": case, "changes": changes, "text": text, "turn": chance.randrange(10**6)})

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one()

    def send(self, drawn):
        """Fill a drawn request with the current names of the world, and send it."""
        self.world.ready(self.name)
        if self.operation.body and drawn["straight"]:
            drawn |= STRAIGHT
        if drawn["phase"] == "now":
            drawn["phase"] = str(self.world.row().phase)
        case, agent = drawn["case"], drawn["agent"]
        known = agent if agent in MESSAGE.agents else MESSAGE.agents[0]
        who = drawn["who"]
        if who == RIGHT:
            own = f"{known} of {FINISHED}" if drawn["study"] == FINISHED else known
            who = own if self.name == "put_report" else "administrator"
        method = drawn["method"] or self.operation.method.upper()
        headers = self._headers(drawn, self.world.authorization(who))
        content, kind = self._content(drawn, known)
        if content is not None:
            headers["Content-Type"] = kind
        query = {key: SHORT if key == "wait" and _long(value) else value for key, value in (case.query or {}).items()}
        asked = f"{method} {self._address(drawn)} {query} by {who}: {content!r:.200}"
        try:
            request = self.http.build_request(
                method, self._address(drawn), params=query, content=content, headers=headers
            )
            response = self.http.send(request, stream=True)
        except (httpx2.InvalidURL, UnicodeError, TypeError):  # no client can send this
            return
        streams = self.name.startswith("follow_") and response.status_code == 200
        if not streams:  # streams never end
            response.read()
        response.close()
        self.statuses[response.status_code] += 1
        wrong = self._wrong(response, streams or method == "HEAD", method == self.operation.method.upper())
        if wrong:
            self.failures.append((self.operation.label, response.status_code, wrong, asked))
        self.world.told(self.name, response.status_code)

    def _address(self, drawn):
        world, text = self.world, drawn["text"]
        chosen = {
            "study": {"live": world.study, FINISHED: FINISHED}.get(drawn["study"], text),
            "agent": drawn["agent"] if drawn["agent"] in MESSAGE.agents else text,
            "phase": drawn["phase"] if drawn["phase"].isdigit() else text,
            "kid": [*world.kids * 3, text][drawn["turn"] % 7],
        }
        path = self.operation.path
        for name, value in chosen.items():
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path

    def _headers(self, drawn, authorization):
        given = dict(drawn["case"].headers or {})
        given.pop("Authorization", None)  # the world chooses the caller
        made = {key: value for key, value in given.items() if _sendable(key, value)}
        held = self.world.receipt
        if self.name == "put_report" and drawn["receipt"] != "generated":
            made = {key: value for key, value in made.items() if key.lower() != "parley-receipt"}
            head = {"held": held.head, "unknown": "0" * 64}.get(drawn["receipt"])
            made |= {"Parley-Receipt": f"{held.sequence}:{head}"} if head else {}
        return made | ({"Authorization": authorization} if authorization else {})

    def _content(self, drawn, agent):
        """The bytes of the body and their content type."""
        right, kind = self.world.body(self.name, agent, drawn["turn"]), drawn["kind"]
        if right is None and not self.operation.body:
            return drawn["raw"] if kind == "raw" and drawn["turn"] % 4 == 0 else (None, None)
        if right is None:  # from the OpenAPI document, if the world has no valid body
            right = drawn["case"].body
        if self.name in ("put_report", "amend_report") and drawn["turn"] % 5:  # usually matching the address
            report = right.get("report", right)
            report["study"] = FINISHED if drawn["study"] == FINISHED else self.world.study
            report["phase"] = int(drawn["phase"]) if drawn["phase"].isdigit() else report["phase"]
        match kind:
            case "raw":
                return drawn["raw"]
            case "right":
                return encoded(right), "application/json"
            case "altered":
                return encoded(altered(right, drawn["changes"])), "application/json"
        return encoded(drawn["case"].body), "application/json"

    def _wrong(self, response, bare, declared):
        """What is wrong with a response; `bare` responses have no body to check."""
        status, kind = response.status_code, response.headers.get("content-type")
        if status >= 500:
            return response.text[:300]
        if status >= 400:
            if kind != "application/problem+json":
                return f"a refusal of the type {kind}"
            return "" if bare else self._wrong_problem(status, response.json())
        if declared and not bare:
            from schemathesis.core.failures import FailureGroup

            try:
                self.operation.validate_response(response)
            except FailureGroup as group:
                return "; ".join(str(found) for found in group.exceptions)[:300]
            if str(status) not in self.operation.definition.raw["responses"]:
                return "a success that the OpenAPI document does not declare"
        return ""

    def _wrong_problem(self, status, problem):
        """What is wrong with a refusal: it is not in the docs, or differs from them."""
        urn, _, slug = problem.get("type", "").rpartition(":")
        found = problem.get("status"), problem.get("retry")
        if urn != "urn:parley:problem" or self.problems.get(slug) != found or found[0] != status:
            return f"not a problem of docs/api.md: {problem}"
        return "" if problem.get("title") and problem.get("detail") else f"a refusal without words: {problem}"


def _long(value):
    try:
        return float(value) > float(SHORT)
    except (TypeError, ValueError):
        return False


def _sendable(key, value):
    try:
        f"{key}{value}".encode("ascii")
    except UnicodeError:
        return False
    return "\n" not in value and "\r" not in value and "\x00" not in value
