"""An OpenID Connect provider, as a process: `python -m tests.edges.oidc.provider CLIENT SECRET BACK PEOPLE.json`.

Of Authlib's server parts: code flow, PKCE required, nonce required, client_secret_basic. It prints its address. Who
signs in is chosen on its page, or by `user=` in the query; a person's claims may overwrite any of the ID token's.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"

from authlib.oauth2.rfc6749 import AuthorizationServer, ClientMixin, OAuth2Request, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import AuthorizationCodeMixin, OpenIDCode
from joserfc.jwk import RSAKey

ROOT = Path(__file__).parents[3]


class Client(ClientMixin):
    def __init__(self, name, secret, back):
        self.name, self.secret, self.back = name, secret, back

    def get_client_id(self):
        return self.name

    def get_allowed_scope(self, scope):
        return scope

    def check_redirect_uri(self, redirect_uri):
        return redirect_uri == self.back

    def check_client_secret(self, client_secret):
        return client_secret == self.secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method == "client_secret_basic"

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return grant_type == "authorization_code"


class Code(AuthorizationCodeMixin):
    def __init__(self, request):
        data = request.payload.data
        self.user, self.redirect_uri, self.scope = request.user, data["redirect_uri"], data["scope"]
        self.code_challenge, self.code_challenge_method = data["code_challenge"], data["code_challenge_method"]
        self.nonce = data["nonce"]

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope

    def get_nonce(self):
        return self.nonce

    def get_auth_time(self):
        return int(time.time())

    def get_acr(self):
        return None

    def get_amr(self):
        return None


CODES, NONCES = {}, set()


class Grant(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic",)

    def save_authorization_code(self, code, request):
        CODES[code] = Code(request)
        NONCES.add(CODES[code].nonce)

    def query_authorization_code(self, code, client):
        return CODES.get(code)

    def delete_authorization_code(self, authorization_code):
        CODES.clear()

    def authenticate_user(self, authorization_code):
        return authorization_code.user


class OpenID(OpenIDCode):
    key = RSAKey.generate_key(2048, auto_kid=True)
    issuer = ""

    def exists_nonce(self, nonce, request):
        return nonce in NONCES

    def resolve_client_private_key(self, client):
        return self.key

    def get_encode_header(self, client):
        return {"alg": "RS256", "kid": self.key.kid}

    def get_client_claims(self, client):
        return {"iss": self.issuer, "aud": [client.name]}

    def generate_user_info(self, user, scope):
        return {name: value for name, value in user.items() if name != "forged"}

    def encode_id_token(self, token, request):
        made = super().encode_id_token(token, request)
        return made[:-8] + "AAAAAAAA" if request.user.get("forged") else made


class Server(AuthorizationServer):
    def __init__(self, client):
        super().__init__()
        self.client = client
        self.openid = OpenID(require_nonce=True)
        self.register_grant(Grant, [CodeChallenge(required=True), self.openid])
        self.register_token_generator("default", lambda **_: {"token_type": "Bearer", "access_token": "x" * 40,
                                                              "expires_in": 60, "scope": "openid"})  # fmt: skip

    def query_client(self, client_id):
        return self.client if client_id == self.client.name else None

    def save_token(self, token, request):
        pass

    def send_signal(self, name, *args, **kwargs):
        pass

    def create_oauth2_request(self, request):
        return request

    def handle_response(self, status, body, headers):
        return status, body, dict(headers)


class Asked(OAuth2Request):
    """A request with its fields, wherever they are."""

    def __init__(self, method, uri, headers, fields):
        super().__init__(method, uri, headers=headers)
        self.payload, self._fields = BasicOAuth2Payload(fields), fields

    @property
    def args(self):
        return self._fields

    @property
    def form(self):
        return self._fields


def serve(client, secret, back, people):
    server = Server(Client(client, secret, back))

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status, body, headers=None):
            content = (json.dumps(body) if isinstance(body, dict | list) else body or "").encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            here = urlsplit(self.path)
            fields, known = dict(parse_qsl(here.query)), json.loads(Path(people).read_text())
            ends = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
            if here.path == "/.well-known/openid-configuration":
                self.answer(200, {"issuer": server.openid.issuer, **{k: address + v for k, v in ends.items()}})
            elif here.path == "/keys":
                self.answer(200, {"keys": [server.openid.key.as_dict(private=False, use="sig")]})
            elif "user" not in fields:
                links = "".join(
                    f'<p><a href="{self.path.replace("&", "&amp;")}&amp;user={n}">{n}</a></p>' for n in known
                )
                self.answer(200, f"<title>Provider</title>{links}", {"Content-Type": "text/html"})
            else:
                asked = Asked("GET", address + self.path, self.headers, fields)
                grant = server.get_consent_grant(asked, end_user=known.get(fields["user"]))
                asked.user = known.get(fields["user"])
                self.answer(*server.create_authorization_response(asked, grant_user=asked.user, grant=grant))

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked = Asked("POST", address + self.path, self.headers, dict(parse_qsl(body)))
            self.answer(*server.create_token_response(asked))

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    address = server.openid.issuer = f"http://127.0.0.1:{listening.server_address[1]}"
    print(address, flush=True)
    listening.serve_forever()


@contextmanager
def provider_process(client, secret, back, people):
    """The address of a provider that runs meanwhile."""
    words = [sys.executable, "-m", "tests.edges.oidc.provider", client, secret, back, str(people)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


if __name__ == "__main__":
    serve(*sys.argv[1:])
