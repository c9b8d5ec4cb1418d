"""A time stamp authority: `openssl ts` behind a small HTTP server, with an authority and a key made for the test."""

import subprocess
import threading

from tests.served import Served, Silent

CONFIG = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
ess_cert_id_alg = sha256
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[stamps]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


class Authority(Served):
    """`down`: it answers 503. `asked` counts the requests."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder, self.certificates, self.down, self.asked = folder, folder / "ca.pem", False, 0
        self.config = folder / "openssl.cnf"
        self.config.write_text(CONFIG.format(folder=folder))
        (folder / "serial").write_text("01\n")
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", self.config)
        self.openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", self.certificates,
                     "-subj", "/CN=Test CA", "-days", "2", "-extensions", "ca")  # fmt: skip
        self.openssl("req", *key, "-new", "-keyout", folder / "tsa.key", "-out", folder / "tsa.csr",
                     "-subj", "/CN=Test time stamps")  # fmt: skip
        self.openssl("x509", "-req", "-in", folder / "tsa.csr", "-CA", self.certificates, "-CAkey", folder / "ca.key",
                     "-out", folder / "tsa.pem", "-days", "2", "-set_serial", "2", "-extfile", self.config,
                     "-extensions", "stamps")  # fmt: skip
        authority, lock = self, threading.Lock()

        class Handler(Silent):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with lock:
                    authority.asked += 1
                    answer = b"" if authority.down else authority.answer(body)
                self.send_response(503 if authority.down else 200)
                self.send_header("Content-Type", "application/timestamp-reply")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

        super().__init__(Handler)
        self.url += "/tsr"

    def openssl(self, *words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)

    def answer(self, request):
        (self.folder / "request.tsq").write_bytes(request)
        self.openssl("ts", "-reply", "-config", self.config, "-queryfile", self.folder / "request.tsq",
                     "-out", self.folder / "answer.tsr")  # fmt: skip
        return (self.folder / "answer.tsr").read_bytes()
