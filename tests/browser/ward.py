"""A real `parley site` process beside a real coordinator, and a line to its API."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2


class Ward:
    """The service of one site. It can be stopped and started again on the same journal and port."""

    def __init__(
        self, server, folder: Path, *, study: str, agent: str | list[str], options: tuple[str, ...] = ()
    ) -> None:
        """`agent` is one, or a list: the strata of the site."""
        self.folder, self.study, self.options = folder, study, options
        folder.mkdir(parents=True, exist_ok=True)
        self.token_file = folder / "token"
        if isinstance(agent, str):
            self.token_file.write_text(server.issue("agent", study=study, agent=agent))
        else:
            lines = [f"{server.issue('agent', study=study, agent=one)} {one}\n" for one in agent]
            self.token_file.write_text("".join(lines))
        self.server, self.port = server, 0
        self.start()

    def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PARLEY_")}
        arguments = ["site", "--server", self.server.url, "--study", self.study, "--token-file", str(self.token_file)]
        arguments += ["--outbox", str(self.folder / "box"), "--port", str(self.port), *self.options]
        with (self.folder / "site.log").open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "parley", *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        line = self.process.stdout.readline()
        assert " at http" in line, (self.folder / "site.log").read_text()[-2000:]
        self.url = line.rsplit(" at ", 1)[1].strip()
        self.port = int(self.url.rsplit(":", 1)[1])
        self.line = httpx2.Client(base_url=self.url, timeout=60, trust_env=False)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> int:
        self.line.close()
        self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        return status

    def post(self, path: str, **body):
        return self.line.post(path, json=body)

    def assign(self, key: str):
        answer = self.post("/v1/assignments", participant=key)
        assert answer.is_success, answer.text
        return answer.json()

    def outcome(self, key: str, reward: float):
        answer = self.post("/v1/outcomes", participant=key, reward=reward)
        assert answer.is_success, answer.text

    def status(self):
        return self.line.get("/v1/status").json()

    def wait(self, ready, seconds=120):
        until = time.monotonic() + seconds
        while not ready(found := self.status()):
            assert time.monotonic() < until, found
            time.sleep(0.05)
        return found
