"""A network that loses requests and answers."""

import random
import socket
import threading


class LossyProxy:
    """A proxy that forwards bytes, or drops a request, or drops its answer."""

    def __init__(self, port, seed, loss=0.5):
        self.target, self.random, self.loss, self.lost = port, random.Random(seed), loss, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        fate = self.random.random()
        with connection, socket.create_connection(("127.0.0.1", self.target)) as server:
            connection.settimeout(5)
            server.settimeout(5)
            try:
                request = connection.recv(1 << 20)
                while b"\r\n\r\n" not in request:
                    request += connection.recv(1 << 20)
                head, _, body = request.partition(b"\r\n\r\n")
                length = next((int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if b"content-length" in h), 0)
                while len(body) < length:
                    body += connection.recv(1 << 20)
                if fate < self.loss / 2:
                    self.lost += 1
                    return
                server.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                answer = b""
                while part := server.recv(1 << 20):
                    answer += part
                if fate < self.loss:
                    self.lost += 1
                    return
                connection.sendall(answer)
            except OSError:
                return

    def close(self):
        self.listener.close()
