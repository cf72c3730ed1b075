"""The dependencies are the packages that kafkapy imports, and each module of kafkapy has a user in it."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

PROVIDED = {
    "pytest": "the plugin is imported by pytest itself",
    "kafka": "a broker in a test makes tokens for the client, which the test has",
    "aiokafka": "a broker in a test makes tokens for the client, which the test has",
}
"""Packages that kafkapy imports and does not depend on, with the reason."""

LOADERS = {
    "kafkapy.cli": "kafkapy/cli/app.py",
    "kafkapy.records": "kafkapy/records/scanner.py",
    "kafkapy.server.handlers": "kafkapy/server/handlers/__init__.py",
    "kafkapy.testing": "kafkapy/testing/__init__.py",
}
"""Packages whose modules a file imports by names that it has as strings."""


def modules() -> dict[str, Path]:
    found = {}
    for path in (ROOT / "kafkapy").rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imported_by(tree: ast.Module) -> Iterator[str]:
    """All imports of a module, lazy ones too, by statement or by a string with the full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in MODULES:
            yield node.value


def strings_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def distribution_names(requirements: list[str]) -> set[str]:
    return {requirement.split(">")[0].split("=")[0].split("<")[0].strip() for requirement in requirements}


def test_the_dependencies_are_exactly_the_imported_packages() -> None:
    top_level = {name.partition(".")[0] for tree in TREES.values() for name in imported_by(tree)}
    foreign = top_level - sys.stdlib_module_names - {"kafkapy"} - PROVIDED.keys()
    distributions = packages_distributions()
    imported = {distributions.get(name, [name])[0] for name in foreign}  # gssapi may not be installed
    project = PROJECT["project"]
    optional = [
        distribution_names(project["optional-dependencies"][name]) for name in ("security", "oauth", "gssapi", "regex")
    ]
    assert imported == distribution_names(project["dependencies"]).union(*optional)


def entry_points() -> set[str]:
    project = PROJECT["project"]
    named = [*project["scripts"].values(), *project["entry-points"]["pytest11"].values()]
    imported_by_users = {
        "kafkapy",
        "kafkapy.__main__",
        "kafkapy.clients.original.consumer_connector",
        "kafkapy.clients.original.producer",
        "kafkapy.clients.simple_consumer",
        "kafkapy.testing",
    }
    return {name.partition(":")[0] for name in named} | imported_by_users


def test_each_module_has_a_user_in_the_package() -> None:
    """Code that only the project's own tests use belongs into ``tests``."""
    used = entry_points()
    for name, tree in TREES.items():
        used |= {other for other in imported_by(tree) if other != name}
    for package, loader in LOADERS.items():
        used |= {f"{package}.{short}" for short in strings_of(loader)}
    packages = {name for name, path in MODULES.items() if path.name == "__init__.py"}
    assert sorted(MODULES.keys() - packages - used) == []


@pytest.mark.parametrize("package", LOADERS)
def test_a_loader_names_modules_of_its_package(package: str) -> None:
    assert any(f"{package}.{short}" in MODULES for short in strings_of(LOADERS[package]))


def test_only_the_package_is_installed() -> None:
    assert PROJECT["tool"]["setuptools"]["packages"]["find"] == {"include": ["kafkapy*"]}
