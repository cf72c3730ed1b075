"""Build and start each client of another language, after a check for the tools that it needs."""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from compat_tests.clients.agent import WITHOUT_SECURITY, Abilities, Agent, AgentClient
from harness.jars import VERSIONS
from harness.java_programs import BUILT, MissingToolchainError, java_command

HERE = Path(__file__).resolve().parent


def _version(command: list[str], pattern: str) -> tuple[int, int]:
    """The major and minor version that a tool prints."""
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/").stdout
    found = re.search(pattern, said)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def _wanted(file: Path, pattern: str) -> tuple[int, int]:
    found = re.search(pattern, file.read_text(), re.M)
    assert found is not None
    return int(found[1]), int(found[2])


def check_go(client: str) -> None:
    """Raise MissingToolchainError if Go is not here, or too old for what uses its clients."""
    if shutil.which("go") is None:
        raise MissingToolchainError(f"the Go client {client} wants the go command")
    wanted, here = (
        _wanted(HERE / "go" / "go.mod", r"^go (\d+)\.(\d+)"),
        _version(["go", "env", "GOVERSION"], r"(\d+)\.(\d+)"),
    )
    if here < wanted:
        raise MissingToolchainError(f"the Go client {client} wants go {_dotted(wanted)}, here is {_dotted(here)}")


@cache
def go_command(package: str) -> list[str]:
    """The command of a Go client, compiled."""
    check_go(package)
    program = BUILT / package
    BUILT.mkdir(parents=True, exist_ok=True)
    _build(["go", "build", "-o", str(program), f"./{package}"], HERE / "go")
    return [str(program)]


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _check_commands(client: str, *commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            raise MissingToolchainError(f"the Rust client {client} wants the {command} command")


@cache
def _rust(client: str, folder: str, *needed: str) -> list[str]:
    """The command of a Rust client, compiled by cargo."""
    source = HERE / folder
    _check_commands(client, "cargo", *needed)
    wanted = _wanted(source / "Cargo.toml", r'^rust-version = "(\d+)\.(\d+)')
    here = _version(["cargo", "--version"], r"cargo (\d+)\.(\d+)")
    if here < wanted:
        raise MissingToolchainError(f"the Rust client {client} wants cargo {_dotted(wanted)}, here is {_dotted(here)}")
    target = BUILT / folder
    _build(["cargo", "build", "--quiet", "--locked", "--target-dir", str(target)], source)
    return [str(target / "debug" / "kafkapy-compat")]


def _rdkafka() -> list[str]:
    """The command of rdkafka, whose librdkafka is compiled too."""
    needed = ("cc", "make", "pkg-config")
    _check_commands("rdkafka", "cargo", *needed)
    if subprocess.run(["pkg-config", "--exists", "openssl"], check=False).returncode:
        raise MissingToolchainError("the Rust client rdkafka wants OpenSSL's headers (Debian's package libssl-dev)")
    return _rust("rdkafka", "rdkafka", *needed)


@cache
def node_modules() -> Path:
    """The folder with kafkajs and its codecs, installed into the cache: one folder for each list of packages."""
    source = HERE / "node"
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            raise MissingToolchainError(f"the Node client kafkajs wants the {command} command")
    lock = source / "package-lock.json"
    place = BUILT / f"kafkajs-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    if not place.exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=BUILT))
        for file in (lock, source / "package.json"):
            shutil.copy(file, scratch)
        try:
            _build(["npm", "ci", "--no-audit", "--no-fund"], scratch)
            scratch.rename(place)
        except OSError:  # another process was faster
            pass
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return place / "node_modules"


@cache
def _java(version: str) -> list[str]:
    """The command of Kafka's own clients of one release, compiled against its jars."""
    return java_command("Agent", sorted((HERE / "java").glob("*.java")), version)


def _build(command: list[str], directory: Path) -> None:
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=600, check=False)
    said = run.stdout + run.stderr
    hint = " (is the network there?)" if re.search(UNREACHABLE, said, re.IGNORECASE) else ""
    assert run.returncode == 0, f"{' '.join(command)} failed{hint}:\n{said}"


UNREACHABLE = "resolve host|dial tcp|no such host|EAI_AGAIN|ENOTFOUND|ECONNREFUSED|network|timed out"
ABILITIES = {
    "rskafka": Abilities(sends_null_headers=False, hashes_like_java=False, is_idempotent=False),
    "kafkajs": Abilities(sends_null_headers=False),
    "sarama": Abilities(hashes_like_java=False),
}
AGENTS: dict[str, Callable[[], list[str]]] = {
    "franz-go": lambda: go_command("franz"),
    "sarama": lambda: go_command("sarama"),
    "kafkajs": lambda: ["env", f"NODE_PATH={node_modules()}", "node", str(HERE / "node" / "agent.js")],
    "rskafka": lambda: _rust("rskafka", "rust"),
    **{f"java-{version}": partial(_java, version) for version in VERSIONS},
}
LONG_AGENTS: dict[str, Callable[[], list[str]]] = {
    "rdkafka": _rdkafka,
}
"""The clients that take minutes to build: their tests are marked `long`."""
CONSUMER_PROTOCOL = "-848"
"""The end of the name of a client whose group members use the consumer protocol (KIP-848)."""


class Agents:
    """The programs that this session has started, one for each client."""

    def __init__(self) -> None:
        self._running: dict[str, Agent] = {}

    def client(
        self,
        name: str,
        bootstrap: str,
        settings: Mapping[str, object] = WITHOUT_SECURITY,
        group_protocol: str = "classic",
    ) -> AgentClient:
        """The named client, started at the first call; raises MissingToolchainError.

        ``settings`` are those of ``client_settings`` for a broker with security.
        """
        agent = self._running.get(name)
        if agent is None:
            agent = self._running[name] = Agent({**AGENTS, **LONG_AGENTS}[name]())
        return AgentClient(name, agent, bootstrap, ABILITIES.get(name, Abilities()), settings, group_protocol)

    def close(self) -> None:
        """Ends the programs."""
        for agent in self._running.values():
            agent.close()
