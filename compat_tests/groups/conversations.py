"""All conversations of ``tests/server/handlers`` about groups, for brokers of any kind."""

from typing import Any

from harness.cases import group_cases, offset_cases, protocol_cases, static_member_cases
from harness.cases.group_cases import connected

CONVERSATIONS = {
    **group_cases.CONVERSATIONS,
    **static_member_cases.CONVERSATIONS,
    **offset_cases.CONVERSATIONS,
    **protocol_cases.CONVERSATIONS,
}
NAMES = list(CONVERSATIONS)
OLD_PROTOCOL = "2.2"
REFUSED = [name for name in static_member_cases.CONVERSATIONS if "v7" in name]
"""The conversations with an inter-broker protocol that is too old for static members."""


def hold(name: str, bootstrap: str, group: str) -> list[Any]:
    """The transcript of one conversation, with an unused group."""
    with connected(bootstrap, group) as talk:
        CONVERSATIONS[name](talk)
    return talk.transcript
