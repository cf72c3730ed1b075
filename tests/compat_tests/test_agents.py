"""A client whose toolchain is missing is skipped by name; one that can't be built says why."""

import subprocess
from pathlib import Path

import pytest

from compat_tests.clients import agents
from compat_tests.clients.agents import AGENTS, Agents
from harness import java
from harness.java_programs import MissingToolchainError

BUILDERS = (agents.go_command, agents.node_modules, agents._rust)


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No answer of another test is kept, and nothing is built permanently."""
    for builder in BUILDERS:
        builder.cache_clear()
    monkeypatch.setattr(agents, "BUILT", tmp_path / "built")


@pytest.mark.parametrize(
    ("client", "command"),
    [
        ("franz-go", "go"),
        ("sarama", "go"),
        ("kafkajs", "node"),
        ("rskafka", "cargo"),
        ("rdkafka", "cargo"),
        ("java-2.7.2", "Java"),
    ],
)
def test_a_command_that_is_not_on_the_path_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: str, command: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "wheel_home", lambda: None)
    with pytest.raises(MissingToolchainError, match=command):
        Agents().client(client, "127.0.0.1:1")


@pytest.mark.parametrize(("client", "command", "says"), [
    ("sarama", "go", "go1.2.3"), ("rskafka", "cargo", "cargo 1.2.3 (0000 2015-01-01)"),
])  # fmt: skip
def test_a_toolchain_that_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, client: str, command: str, says: str
) -> None:
    tool = tmp_path / command
    tool.write_text(f"#!/bin/sh\necho '{says}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolchainError, match=r"here is 1\.2"):
        AGENTS[client]()


def test_a_registry_out_of_reach_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = subprocess.CompletedProcess(["npm"], 1, "", "npm error code EAI_AGAIN")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(AssertionError, match=r"npm ci failed \(is the network there\?\)"):
        agents._build(["npm", "ci"], tmp_path)


def test_a_program_that_does_not_compile_shows_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = subprocess.CompletedProcess(["go"], 1, "", "main.go:1: syntax error")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(AssertionError, match=r"go build failed:\nmain.go:1: syntax error"):
        agents._build(["go", "build"], tmp_path)
