"""The version of a client that was tested: the installed one, or the one that its build requests."""

import json
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from compat_tests.clients.agents import CONSUMER_PROTOCOL

HERE = Path(__file__).resolve().parent
RUST = {"rskafka": "rust", "rdkafka": "rdkafka"}
PYTHON = ("aiokafka", "confluent-kafka", "kafka-python")


def version_of(client: str) -> str:
    """The version of a client of the table; "" for one that has it in its name, or is not here."""
    client = client.removesuffix(CONSUMER_PROTOCOL)
    if client in PYTHON:
        return _installed(client)
    if client == "spark":
        return _installed("pyspark")
    if client in {"franz-go", "sarama"}:
        return _found(rf"/{client} v(\S+)", HERE / "go" / "go.mod")
    if client in RUST:
        return _found(rf'^{client} = .*"=([\d.]+)"', HERE / RUST[client] / "Cargo.toml")
    if client == "kafkajs":
        asked: str = json.loads((HERE / "node" / "package.json").read_text())["dependencies"][client]
        return asked
    return _kcat() if client == "kcat" else ""


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _found(pattern: str, file: Path) -> str:
    found = re.search(pattern, file.read_text(), re.M)
    return found[1] if found is not None else ""


def _kcat() -> str:
    if shutil.which("kcat") is None:
        return ""
    said = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version ([\d.]+)", said)
    return found[1] if found is not None else ""
