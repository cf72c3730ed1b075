"""Selects the messages to generate: those that the broker serves, and those that the package imports to send or store.

The registry of the handlers lists the APIs that are served. The other messages (records of internal topics,
subscriptions and assignments of consumers, requests to other brokers) are found by their imports, so a new message only
needs to be imported, there or in the requests of the tests. The definitions of all messages are in
tools/codegen/definitions.
"""

import ast
from pathlib import Path

from harness.definitions.model import Message, Versions
from harness.definitions.names import module_name, modules
from kafkapy.server.handlers import REGISTRY

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "kafkapy"
CASES = ROOT / "harness" / "cases"
"""Requests that tests send, also those that so far only Apache Kafka answers."""
_MESSAGES = "kafkapy.protocol.messages"


def generated_modules(messages: dict[str, Message]) -> dict[str, list[Message]]:
    """The modules to generate, with the messages of each."""
    served = {module_name(message) for message in messages.values() if message.api_key in REGISTRY}
    wanted = served | _imported(PACKAGE) | _imported(CASES)
    return {module: members for module, members in modules(messages).items() if module in wanted}


def advertised_versions() -> dict[int, Versions]:
    """The versions of each API that clients may use."""
    return {
        int(api.key): Versions(api.min_version, api.max_version) for api in REGISTRY.values() if not api.between_brokers
    }


def _imported(package: Path) -> set[str]:
    """The message modules that a package's files import, without the generated files themselves."""
    found: set[str] = set()
    own = package / "protocol" / "messages"
    for path in package.rglob("*.py"):
        if own in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            if node.module.startswith(f"{_MESSAGES}."):
                found.add(node.module.removeprefix(f"{_MESSAGES}."))
            if node.module in (_MESSAGES, f"{_MESSAGES}.stored"):
                prefix = node.module.removeprefix(_MESSAGES).removeprefix(".")
                found |= {f"{prefix}.{alias.name}".removeprefix(".") for alias in node.names}
    return found
