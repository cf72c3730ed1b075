"""A realm of Kerberos: the KDC of MIT's krb5 on loopback, with its database in a temporary directory."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

from harness.java_programs import MissingToolchainError
from harness.process import ChildProcess

REALM = "KAFKAPY.TEST"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
KRB5_CONF = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
clockskew = {clock_skew_s}
[realms]
{realm} = {{
  kdc = {address}
}}
"""
KDC_CONF = """[kdcdefaults]
kdc_listen = {address}
kdc_tcp_listen = {address}
[realms]
{realm} = {{
  database_name = {directory}/principals
  key_stash_file = {directory}/stash
}}
[logging]
kdc = STDERR
"""


class KeyDistributionCenter(ChildProcess):
    """A KDC and its realm; raises MissingToolchainError where its programs are not installed."""

    def __init__(self) -> None:
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"  # often not in the path of a user
        found = {name: shutil.which(name, path=path) for name in PROGRAMS}
        missing = [name for name, program in found.items() if program is None]
        if missing:
            packages = "krb5-kdc, krb5-admin-server and krb5-user"
            raise MissingToolchainError(f"{missing[0]} is not installed: on Debian it comes with {packages}")
        self._programs = {name: str(program) for name, program in found.items()}
        super().__init__("krb5kdc")
        self.config = self.krb5_conf("krb5.conf")
        """The realm as its clients and servers see it, for KRB5_CONFIG."""
        conf = KDC_CONF.format(realm=REALM, directory=self.directory, address=self.bootstrap)
        (self.directory / "kdc.conf").write_text(conf)
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master-key")

    def krb5_conf(self, name: str, clock_skew_s: int = 300) -> Path:
        """Writes a configuration of the realm."""
        path = self.directory / name
        path.write_text(KRB5_CONF.format(realm=REALM, address=self.bootstrap, clock_skew_s=clock_skew_s))
        return path

    def add(self, principal: str, *options: str) -> Path:
        """Adds a principal with random keys; returns its keytab."""
        keytab = self.directory / f"{principal.replace('/', '_')}.keytab"
        self._run("kadmin.local", "addprinc", "-randkey", *options, principal)
        self._run("kadmin.local", "ktadd", "-k", str(keytab), principal)
        return keytab

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs[program], *arguments]
        subprocess.run(command, env=self.environment(), capture_output=True, timeout=60, check=True)

    def command(self) -> list[str]:
        return [self._programs["krb5kdc"], "-n"]

    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(self.directory),
        }

    def is_ready(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=2):
                return True
        except OSError:
            return False
