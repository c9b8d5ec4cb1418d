"""The way out: proxies, private authorities, client certificates. Rules first, then real processes."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import trustme
from click.testing import CliRunner
from tests.coordinator.support import server_process

from parley.agent import Client, Network
from parley.cli.console import chosen_network, remote_options
from parley.coordinator.access.tokens import prepare
from parley.coordinator.settings import ServerSettings
from parley.errors import InvalidInput, Unreachable

NAME, SERVER = "coordinator.example", "https://coordinator.example"  # a name that no resolver knows
SECRET = "s3cret-of-the-proxy"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
STUDY = """
arms = 2
agents = ["Paris", "Lyon"]
delta = 0.1
[weights]
kind = "personalized"
alpha = 0.5
[truth]
means = [[0.9, 0.8], [0.1, 0.0]]
"""


def clean(**variables):
    """This environment without proxies of its own."""
    known = {name for one in VARIABLES for name in (one, one.lower())}
    kept = {key: value for key, value in os.environ.items() if key not in known and not key.startswith("PARLEY_")}
    return kept | variables


@pytest.fixture
def environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    return lambda **variables: [monkeypatch.setenv(key, value) for key, value in variables.items()]


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """A private authority, a certificate of the coordinator and one of a site, as PEM files in a folder."""
    folder, authority = tmp_path_factory.mktemp("papers"), trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name, made in (("server", authority.issue_cert(NAME)), ("site", authority.issue_cert("lyon.example"))):
        made.private_key_pem.write_to_path(folder / f"{name}.key")
        for place, pem in enumerate(made.cert_chain_pems):
            pem.write_to_path(folder / f"{name}.pem", append=place > 0)
    return folder


def test_the_usual_variables_name_the_proxy(environment):
    def used(server=SERVER, **options):
        return Network(**options).describe(server)["proxy"]

    assert used() == ""
    environment(HTTPS_PROXY="proxy.example:3128", HTTP_PROXY="http://plain.example:80")
    assert used() == "http://proxy.example:3128"
    assert used("http://coordinator.example") == "http://plain.example:80"
    assert used(proxy="https://other.example:1") == "https://other.example:1"
    assert used(proxy="none") == ""
    for own in ("https://127.0.0.1:8642", "http://localhost:8642", "https://[::1]:8642"):
        assert used(own) == ""
    assert used("https://localhost", proxy="http://said.example:1") == "http://said.example:1"  # who says so means it
    environment(NO_PROXY="elsewhere.example, .example, 10.0.0.0/8")
    assert used() == used("https://10.1.2.3:8642") == ""
    assert used("https://coordinator.test") == "http://proxy.example:3128"
    environment(HTTPS_PROXY="", ALL_PROXY="http://all.example:1", NO_PROXY="")
    assert used() == "http://all.example:1"


@pytest.mark.parametrize(
    "address", ["socks5://clerk:s3cret@x:1", "http://", "http://clerk:s3cret@x:99999", "ftp:s3cret"]
)
def test_what_is_no_proxy_is_refused_and_not_shown(environment, address):
    with pytest.raises(InvalidInput, match="--proxy: found no address of a proxy") as told:
        Client(SERVER, "t", network=Network(proxy=address))
    environment(HTTPS_PROXY=address)
    with pytest.raises(InvalidInput, match="HTTPS_PROXY: found no address of a proxy") as again:
        Client(SERVER, "t")
    assert "s3cret" not in f"{told.value}{again.value}"


def test_a_password_is_in_no_message():
    network = Network(proxy=f"http://clerk:{SECRET}@127.0.0.1:9")
    words = [repr(network), str(network.describe(SERVER))]
    for error in (httpx2.ProxyError("407 Auth"), httpx2.ProxyError("403 No"), httpx2.ConnectError("refused")):
        words.append(str(network.failure(SERVER, error)))
    assert SECRET not in " ".join(words)
    assert all("http://127.0.0.1:9" in word for word in words[1:])
    assert "USER:PASSWORD" in words[2]
    assert "allow this address" in words[3]


def test_files_that_are_none(papers, tmp_path, environment):
    environment(SSL_CERT_FILE=str(tmp_path / "none.pem"))
    text = tmp_path / "text.pem"
    text.write_text("no certificate", encoding="utf-8")
    ca = str(papers / "ca.pem")
    for options, words in (
        ({}, "SSL_CERT_FILE: found .*none.pem: No such file"),
        ({"ca_file": "nowhere.pem"}, "--ca-file: found nowhere.pem: No such file"),
        ({"ca_file": str(text)}, "--ca-file: found .*no PEM in it"),
        ({"ca_file": ca, "client_cert": "nowhere.pem"}, "--client-cert: found no file nowhere.pem"),
        ({"ca_file": ca, "client_cert": str(text)}, "found no PEM in it"),
        (
            {"ca_file": ca, "client_cert": str(papers / "site.pem"), "client_key": str(papers / "server.key")},
            "found a key that does not belong to this certificate",
        ),
    ):
        with pytest.raises(InvalidInput, match=words):
            Client(SERVER, "t", network=Network(**options))
    with pytest.raises(InvalidInput, match="--client-key: found no --client-cert"):
        Network(client_key="x")
    Client("http://127.0.0.1:1", "t").close()  # plain HTTP reads no certificate


def test_options_of_a_group_and_of_its_command_and_variables():
    import click

    seen = []

    @click.group()
    @remote_options
    def group(**_):
        pass

    @group.command()
    @remote_options
    def command(**_):
        seen.append(chosen_network())

    for arguments, variables, proxy, ca_file in (
        (["--proxy", "http://a:1", "command", "--ca-file", "b"], {}, "http://a:1", "b"),
        (["--proxy", "http://a:1", "command", "--proxy", "http://b:1"], {}, "http://b:1", ""),
        (["--proxy", "http://a:1", "command"], {"PARLEY_PROXY": "http://c:1"}, "http://a:1", ""),
        (["command"], {"PARLEY_PROXY": "http://c:1", "PARLEY_CA_FILE": "d"}, "http://c:1", "d"),
    ):
        done = CliRunner().invoke(group, arguments, env=variables)
        assert done.exit_code == 0, done.output
        assert (seen[-1].proxy, seen[-1].ca_file) == (proxy, ca_file)


def test_client_certificates_need_tls(papers):
    with pytest.raises(InvalidInput, match="tls_client_ca"):
        ServerSettings(tls_client_ca=str(papers / "ca.pem"))


@contextmanager
def proxy_process(server, password=""):
    """A CONNECT proxy that alone can reach the coordinator; yields its address and what reads its lines."""
    command = [
        sys.executable,
        "-m",
        "tests.agent.connect_proxy",
        server.rsplit(":", 1)[1],
        *([password] * bool(password)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])

    def ended():
        process.terminate()
        return process.communicate(timeout=30)[0].splitlines()

    try:
        yield f"127.0.0.1:{int(process.stdout.readline())}", ended
    finally:
        process.kill()
        process.communicate()


def parley(folder, *arguments, status=0, **variables):
    done = subprocess.run(
        [sys.executable, "-m", "parley", *map(str, arguments)],
        cwd=folder,
        env=clean(**variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == status, said
    assert "Traceback" not in said
    assert SECRET not in said
    return " ".join(said.split())


@pytest.fixture
def behind(papers, tmp_path):
    """A coordinator with a certificate of a private authority: its own address, and a folder with token and study."""
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    token = prepare(str(tmp_path / "parley.db"), at="2026-01-01T00:00:00.000Z", name="root", new_token=False)[2]
    (tmp_path / "root.token").write_text(token, encoding="utf-8")

    @contextmanager
    def serving(**variables):
        tls = {"PARLEY_TLS_CERT": papers / "server.pem", "PARLEY_TLS_KEY": papers / "server.key"}
        with server_process(str(tmp_path / "parley.db"), **tls, **variables) as (_, address):
            yield address, tmp_path

    return serving


@pytest.mark.servers
def test_a_study_through_a_proxy_to_a_coordinator_of_a_private_authority(behind, papers):
    trusting = ["--ca-file", papers / "ca.pem"]
    with behind() as (address, folder), proxy_process(address) as (proxy, ended):
        remote = ["--server", SERVER, "--token-file", "root.token", "--proxy", f"http://{proxy}"]
        parley(folder, "admin", "create-study", "study.toml", "--id", "s", "--tokens", "tokens", *remote, *trusting)
        agent = ["agent", "--study", "s", "--server", SERVER, "--source", "simulate:study.toml"]
        untrusted = parley(folder, *agent, "--token-file", "tokens/s-agent-1.token", "--proxy", proxy, status=1)
        assert "is not trusted" in untrusted
        assert "--ca-file FILE" in untrusted
        # Nobody but the proxy knows the name: straight out there is no way.
        assert "no answer" in parley(folder, "admin", "status", *remote[:4], "--proxy", "none", *trusting, status=1)
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "parley", *agent, "--token-file", f"tokens/s-agent-{place}.token"],
                cwd=folder,
                env=clean(HTTPS_PROXY=f"http://{proxy}", PARLEY_CA_FILE=str(papers / "ca.pem")),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for place in (1, 2)
        ]
        said = [one.communicate(timeout=120)[0] for one in running]
        assert [one.returncode for one in running] == [0, 0], said
        assert all("is finished" in words for words in said)
        told = parley(folder, "verify", "s", *remote, *trusting, "--receipts", "parley-outbox")
        assert told.startswith("Sound.")
        assert f"through http://{proxy}, trusting {papers / 'ca.pem'}, answers" in parley(
            folder, "doctor", *remote[:2], *remote[4:], *trusting
        )
        lines = ended()
        assert len(lines) >= 6  # a command, one that does not trust, two agents, verify, doctor
        assert set(lines) == {f"CONNECT {NAME}:443 200"}


@pytest.mark.servers
def test_a_proxy_with_a_password(behind, papers):
    """Neither the right password nor a wrong one shows; `parley` asserts it of everything that is said."""
    with behind() as (address, folder), proxy_process(address, f"clerk:{SECRET}") as (proxy, ended):
        status = ["admin", "status", "--server", SERVER, "--token-file", "root.token", "--ca-file", papers / "ca.pem"]
        assert "Studies" in parley(folder, *status, HTTPS_PROXY=f"http://clerk:{SECRET}@{proxy}")
        assert "Studies" in parley(folder, *status, PARLEY_PROXY=f"clerk:{SECRET}@{proxy}")
        for variables in ({"HTTPS_PROXY": f"http://{proxy}"}, {"HTTPS_PROXY": f"http://clerk:{SECRET}X@{proxy}"}):
            told = parley(folder, *status, status=1, **variables)
            assert f"the proxy http://{proxy} refused the connection" in told
            assert "(407). The proxy requires a user and a password" in told
        agent = ["agent", "--study", "s", "--agent", "Paris", "--source", "csv:x", *status[2:]]
        assert "(407)" in parley(folder, *agent, status=1, HTTPS_PROXY=f"http://{proxy}")  # at once: it does not wait
        assert [line[-3:] for line in ended()] == ["200", "200", "407", "407", "407"]


@pytest.mark.servers
def test_a_coordinator_that_asks_for_certificates(behind, papers):
    with behind(PARLEY_TLS_CLIENT_CA=papers / "ca.pem") as (address, folder), proxy_process(address) as (proxy, _):
        token = (folder / "root.token").read_text(encoding="utf-8")
        known = {"proxy": f"http://{proxy}", "ca_file": str(papers / "ca.pem")}
        with (
            Client(SERVER, token, network=Network(**known)) as client,
            pytest.raises(Unreachable, match="--client-cert"),
        ):
            client.request("GET", "whoami")
        own = {"client_cert": str(papers / "site.pem"), "client_key": str(papers / "site.key")}
        with Client(SERVER, token, network=Network(**known, **own)) as client:
            assert client.request("GET", "whoami")["role"] == "administrator"
