"""Mirrors between two brokers in this process, which tests run step by step or to their end."""

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.mirror.common import MirrorOptions
from kafkapy.clients.mirror.engine import Mirror
from kafkapy.testing import Broker


class Running:
    """A mirror, the lines that it reported, and its time, which grows by a tenth of a second at each look."""

    def __init__(self, mirror: Mirror, lines: list[str], clients: tuple[ClusterClient, ClusterClient]) -> None:
        self.mirror = mirror
        self.lines = lines
        self.clients = clients

    def finish(self) -> "Running":
        self.mirror.run(threading.Event(), lambda _: None)
        return self


@contextmanager
def mirrored(source: Broker, target: Broker, topics: str, **options: Any) -> Iterator[Running]:
    lines: list[str] = []
    ticks = itertools.count()
    given = MirrorOptions(**{"topics": [re.compile(topics)], "once": True, **options})
    with ClusterClient(source.bootstrap) as first, ClusterClient(target.bootstrap) as second:
        mirror = Mirror((first, second), given, now_s=lambda: next(ticks) / 10, report=lines.append)
        mirror.open(threading.Event())
        yield Running(mirror, lines, (first, second))


def copied(source: Broker, target: Broker, topics: str, **options: Any) -> Running:
    with mirrored(source, target, topics, **options) as running:
        return running.finish()


def patterns(text: str) -> list[re.Pattern[str]]:
    """Patterns as the options of the command have them."""
    return [re.compile(part) for part in text.split(",")]
