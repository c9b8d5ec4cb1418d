"""A receiver of webhooks, on a real socket: verifies every message with the reference library, and keeps it.

As a process: `python -m tests.edges.webhooks.receiver PORT SECRET_FILE OUTPUT REFUSALS`, a JSON line a message.
"""

import json
import ssl
import sys
from pathlib import Path

from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from tests.served import Served, Silent


class Receiver(Served):
    """`refusals`: how many messages it answers with 503 before it takes one; `answer`: with what it takes them."""

    def __init__(self, port=0, *, refusals=0, answer=204, keep=str, certificate=None):
        self.secret, self.refusals, self.answer, self.keep = None, refusals, answer, keep
        self.taken, self.refused, self.forged = [], [], []
        receiver = self

        class Handler(Silent):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.receive(dict(self.headers), body))
                if receiver.answer == 302:
                    self.send_header("Location", f"http://127.0.0.1:{receiver.port}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

        super().__init__(Handler, port)
        self.url += "/hook?to=me"
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(tls)
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
            self.server.handle_error = lambda *_: None  # who does not trust it hangs up

    def receive(self, headers, body):
        message = {key.lower(): value for key, value in headers.items()}["webhook-id"]
        try:
            said = Webhook(self.secret).verify(body, headers)
        except WebhookVerificationError as error:
            self.forged.append(str(error))
            return 400
        entry = {"id": message, "type": said["type"], "said": said}
        if self.refusals:
            self.refusals -= 1
            self.refused.append(entry)
            return 503
        self.taken.append(entry)
        self.keep(json.dumps(entry))
        return self.answer


def main(port, secret, output, refusals):
    def keep(line):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    with Receiver(int(port), refusals=int(refusals), keep=keep) as receiver:
        receiver.secret = Path(secret).read_text(encoding="utf-8").strip()
        print(receiver.url, flush=True)
        receiver.thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
