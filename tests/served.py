"""What runs in a thread of its own inside a `with`, such as a small HTTP server that a test talks to."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Meanwhile:
    """`run` is what the thread does, `stop` ends it."""

    def __enter__(self):
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.thread.join()


class Served(Meanwhile):
    """An HTTP server on 127.0.0.1, on a free port unless one is given."""

    def __init__(self, handler, port=0):
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.port = self.server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def run(self):
        self.server.serve_forever(poll_interval=0.01)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Silent(BaseHTTPRequestHandler):
    """A handler that prints nothing."""

    def log_message(self, *_):
        pass


@contextmanager
def endless_answers():
    """The address of a server whose answers do not end; and what it found when it was cut off."""
    cut = []

    class Handler(Silent):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            try:
                for _ in range(64):
                    self.wfile.write(b" " * 2**20)
            except OSError:
                cut.append(self.path)

        def do_POST(self):
            self.do_GET()

    with Served(Handler) as server:
        yield server.url, cut
