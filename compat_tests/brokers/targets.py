"""The brokers that `--target` names: kafkapy, a release of Apache Kafka, one in a container, or a running one.

A cluster is three brokers of one kind on a ZooKeeper (`compat_tests/cluster/three_brokers.py`).
"""

import re
from contextlib import AbstractContextManager, nullcontext

from compat_tests.brokers.container import IMAGE, Container, why_no_engine
from compat_tests.brokers.remote import RemoteBroker
from harness.jars import VERSIONS, jars_directory
from harness.java import NoJavaError, find_java
from harness.kafkapy_process import KafkapyProcess
from harness.process import Broker, answers_api_versions
from harness.real_kafka import RealKafka

KAFKAPY = "kafkapy"
KAFKA = "kafka-"
CONTAINER = "testcontainers:"
CLUSTER = "-cluster"
WITH_ZOOKEEPER = "2.7.2"
"""The release whose jars have the ZooKeeper of the clusters, and the one whose brokers form some."""
CLUSTERS = (KAFKAPY + CLUSTER, KAFKA + WITH_ZOOKEEPER + CLUSTER)
RELEASES = tuple(KAFKA + version for version in VERSIONS)
KNOWN = ", ".join([KAFKAPY, *RELEASES, *CLUSTERS, f"{CONTAINER}<image>", "<host>:<port>"])


def is_cluster(target: str) -> bool:
    """Whether the target is several brokers."""
    return target in CLUSTERS


class TargetError(Exception):
    """No broker can be tested by this name; the message is one line that says why."""


class MissingEngineError(TargetError):
    """The target wants a Docker engine, and none answers."""


def check(target: str) -> None:
    """Raises TargetError when nothing can be tested by this name."""
    if target == KAFKAPY:
        return
    if is_cluster(target):
        _check_release(WITH_ZOOKEEPER)
    elif target.startswith(CONTAINER):
        _check_image(target.removeprefix(CONTAINER))
    elif target in RELEASES:
        _check_release(target.removeprefix(KAFKA))
    elif found := re.fullmatch(r"(.+):(\d{1,5})", target):
        if not answers_api_versions(int(found[2]), found[1]):
            raise TargetError(f"no Kafka broker answers at {target}")
    else:
        raise TargetError(f"unknown target {target!r}: there are {KNOWN}")


def _check_image(image: str) -> None:
    if not re.fullmatch(IMAGE, image):
        raise TargetError(f"{CONTAINER}{image} names no image: {CONTAINER}apache/kafka:3.9.1 would")
    if reason := why_no_engine():
        raise MissingEngineError(f"{CONTAINER}{image} was not tested: {reason}")


def _check_release(version: str) -> None:
    if not any(jars_directory(version).glob("*.jar")):
        raise TargetError(f"the jars of Kafka {version} are not here: run python -m harness.jars {version}")
    try:
        find_java()
    except NoJavaError as missing:
        raise TargetError(f"{KAFKA}{version} runs on Java: {missing}") from missing


def running(target: str) -> AbstractContextManager[Broker]:
    """The broker, which runs as long as the context does."""
    if target == KAFKAPY:
        return KafkapyProcess()
    if is_cluster(target):
        from compat_tests.cluster.three_brokers import ThreeBrokers  # here, since it imports a client library

        return ThreeBrokers(target, WITH_ZOOKEEPER if target.startswith(KAFKA) else None)
    if target.startswith(CONTAINER):
        return Container(target.removeprefix(CONTAINER))
    if target.startswith(KAFKA):
        return RealKafka(target.removeprefix(KAFKA))
    return nullcontext(RemoteBroker(target))
