"""Command line tools in Go as clients of the broker: kcl and kminion by franz-go, kafkactl by sarama."""

import subprocess

import pytest

from compat_tests.brokers.own_broker import own_broker
from compat_tests.brokers.targets import KAFKAPY
from compat_tests.clients.agents import go_command
from compat_tests.selection.scenarios import IN_KRAFT
from harness.java_programs import MissingToolchainError
from harness.process import Broker


@pytest.mark.differs(*IN_KRAFT, reason="has another release, and an authorizer's texts of its own")
def test_the_release_is_2_7_and_access_control_lists_are_disabled(broker: Broker) -> None:
    try:
        command = go_command("guess")
    except MissingToolchainError as missing:
        pytest.skip(str(missing))
    release = {"kafkapy.api.release": "2.7"} if broker.name == KAFKAPY else {}
    with own_broker(broker, release) as own:
        run = subprocess.run([*command, own.bootstrap], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    disabled = "kafka server: Security features are disabled"
    assert run.stdout.splitlines() == [
        "guess: v2.7",
        f"list: {disabled}: No Authorizer is configured on the broker",
        f"create: kafka server: failed to create one or more ACL rules: {disabled}",
        f"delete: {disabled}: No Authorizer is configured on the broker.",
    ]
