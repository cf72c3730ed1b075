"""Generates `kafkapy/protocol` from Kafka's message definitions.

`python -m tools.codegen` writes the generated files; `--check` fails when they are stale; `--import-jars` first reads
the definitions from Kafka's jars (in `.cache/jars`, see harness/jars.py).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.definitions import files as definitions
from harness.definitions import jars, merge
from harness.definitions.model import Message
from harness.definitions.selection import advertised_versions, generated_modules
from tools.codegen.emit_module import module_source
from tools.codegen.emit_places import places_source
from tools.codegen.emit_tables import api_keys_source, errors_source, messages_init_source

ROOT = Path(__file__).resolve().parent.parent.parent
PROTOCOL = Path("kafkapy/protocol")
OLDER, NEWER = "3.9.1", "4.4.0"


def sources() -> dict[Path, str]:
    """The text of every generated file, before formatting, by its path in the project."""
    messages = definitions.load_all()
    errors = json.loads((Path(__file__).parent / "errors.json").read_text())
    generated = generated_modules(messages)
    files = {
        PROTOCOL / "api_keys.py": api_keys_source(messages),
        PROTOCOL / "places.py": places_source(messages, advertised_versions()),
        PROTOCOL / "errors.py": errors_source(errors),
        PROTOCOL / "messages/__init__.py": messages_init_source(messages, generated),
        PROTOCOL / "messages/stored/__init__.py": '"""The records that brokers store in their own topics."""\n',
    }
    for module, members in generated.items():
        files[PROTOCOL / "messages" / f"{module.replace('.', '/')}.py"] = module_source(members)
    return files


def generate(into: Path) -> dict[Path, str]:
    """Write the files below ``into``, format them, and return their text."""
    files = sources()
    for path, text in files.items():
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    settings = ["--config", str(ROOT / "pyproject.toml"), "--quiet", str(into / PROTOCOL)]
    subprocess.run([*ruff, "check", "--select", "I", "--fix", *settings], check=True)
    subprocess.run([*ruff, "format", *settings], check=True)
    return {path: (into / path).read_text() for path in files}


def stale() -> list[str]:
    """The files that differ from the generated text, are missing, or are no longer generated."""
    with tempfile.TemporaryDirectory() as directory:
        fresh = generate(Path(directory))
    found = [str(path) for path, text in fresh.items() if _text(ROOT / path) != text]
    present = {path.relative_to(ROOT) for path in (ROOT / PROTOCOL / "messages").rglob("*.py")}
    return sorted(found + [str(path) for path in present - fresh.keys()])


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def import_jars(cache: Path) -> None:
    """Merge the definitions of both releases' jars into tools/codegen/definitions."""
    home = cache / f"kafka-{OLDER}"
    older = jars.read_definitions(home / f"kafka-clients-{OLDER}.jar", keep_unstable=True)
    for coordinator in ("group", "transaction"):
        older |= jars.read_definitions(home / f"kafka-{coordinator}-coordinator-{OLDER}.jar", keep_unstable=True)
    newer: dict[str, Message] = {}
    for part in ("clients", "group-coordinator", "transaction-coordinator"):
        newer |= jars.read_definitions(cache / f"kafka-{NEWER}" / f"kafka-{part}-{NEWER}.jar", keep_unstable=False)
    definitions.dump_all(merge.merge_all(older, newer))


def write() -> None:
    """Write the generated files into the project and remove those that are no longer generated."""
    with tempfile.TemporaryDirectory() as directory:
        fresh = generate(Path(directory))
    for path, text in fresh.items():
        if _text(ROOT / path) != text:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
    for path in (ROOT / PROTOCOL / "messages").rglob("*.py"):
        if path.relative_to(ROOT) not in fresh:
            path.unlink()


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tools.codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a generated file is stale")
    parser.add_argument("--import-jars", action="store_true", help="first read the definitions from Kafka's jars")
    arguments = parser.parse_args()
    if arguments.import_jars:
        import_jars(ROOT / ".cache" / "jars")
    if not arguments.check:
        write()
        return 0
    if differing := stale():
        print("stale, run python -m tools.codegen:", *differing, sep="\n  ")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
