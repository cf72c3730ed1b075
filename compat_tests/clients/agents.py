"""How each client of another language is built and started; what it needs is looked for first."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from compat_tests.clients.agent import Abilities, Agent, AgentClient
from compat_tests.java_programs import BUILT, MissingToolchainError, java_command
from tools.jars import VERSIONS

HERE = Path(__file__).resolve().parent


@cache
def _go(package: str) -> list[str]:
    """The command of a Go client, compiled."""
    source = HERE / "go"
    wanted = re.search(r"^go (\d+)\.(\d+)", (source / "go.mod").read_text(), re.M)
    assert wanted is not None
    if shutil.which("go") is None:
        raise MissingToolchainError(f"the Go client {package} wants the go command")
    found = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True, cwd="/").stdout
    version = re.match(r"go(\d+)\.(\d+)", found)
    if version is None or tuple(map(int, version.groups())) < tuple(map(int, wanted.groups())):
        raise MissingToolchainError(f"the Go client {package} wants {wanted[0]}, here is {found.strip()}")
    program = BUILT / package
    BUILT.mkdir(parents=True, exist_ok=True)
    _build(["go", "build", "-o", str(program), f"./{package}"], source)
    return [str(program)]


@cache
def _node() -> list[str]:
    """The command of the Node client, its one dependency installed into the cache."""
    source = HERE / "node"
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            raise MissingToolchainError(f"the Node client kafkajs wants the {command} command")
    place = BUILT / "kafkajs"
    place.mkdir(parents=True, exist_ok=True)
    for file in source.glob("*.js*"):
        shutil.copy(file, place)
    if not (place / "node_modules" / "kafkajs").exists():
        _build(["npm", "ci", "--no-audit", "--no-fund"], place)
    return ["node", str(place / "agent.js")]


@cache
def _java(version: str) -> list[str]:
    """The command of Kafka's own clients of one release, compiled against its jars."""
    return java_command("Agent", sorted((HERE / "java").glob("*.java")), version)


def _build(command: list[str], directory: Path) -> None:
    run = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, f"{' '.join(command)} failed:\n{run.stdout}{run.stderr}"


ABILITIES = {
    "kafkajs": Abilities(sends_null_headers=False),
    "sarama": Abilities(hashes_like_java=False),
}
AGENTS: dict[str, Callable[[], list[str]]] = {
    "franz-go": lambda: _go("franz"),
    "sarama": lambda: _go("sarama"),
    "kafkajs": _node,
    **{f"java-{version}": partial(_java, version) for version in VERSIONS},
}


class Agents:
    """The programs that this session has started, one for each client."""

    def __init__(self) -> None:
        self._running: dict[str, Agent] = {}

    def client(self, name: str, bootstrap: str) -> AgentClient:
        """The named client, started when it is asked for first; raises MissingToolchainError."""
        agent = self._running.get(name)
        if agent is None:
            agent = self._running[name] = Agent(AGENTS[name]())
        return AgentClient(name, agent, bootstrap, ABILITIES.get(name, Abilities()))

    def close(self) -> None:
        """Ends them."""
        for agent in self._running.values():
            agent.close()
