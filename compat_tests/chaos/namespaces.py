"""Network namespaces as machines: each has one address; packets between two can be dropped, in one direction too.

The program runs itself again in a network and a mount namespace of its own (`unshare`), so the machine's own network
does not change, and both namespaces are removed when the program ends, however it ends. That needs root, or a kernel
that lets other users have user namespaces. A packet is dropped by giving the sender a wrong hardware address for the
receiver: no packet filter is needed, and the sender gets no error.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.keeper import keeper
from harness.process import wait_for

ISOLATED = "KAFKAPY_CHAOS_ISOLATED"
TOOLS = ("unshare", "nsenter", "ip", "mount")
PROBE = "ip link add probe type bridge && ip link add one type veth peer name two && mount -t tmpfs none /mnt"
NOWHERE = "02:00:00:00:ff:ff"
CLIENTS = 254
"""The number of the machine that the program and its clients are on."""


def run(*command: str) -> None:
    """Runs a command that has to succeed; raises RuntimeError with what it said."""
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {found.stderr.strip()}")


def isolate(module: str, arguments: Iterable[str]) -> str:
    """Runs the module again in namespaces of its own and does not return; returns the reason if that is impossible.

    In these namespaces it returns "".
    """
    if os.environ.get(ISOLATED):
        return ""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"{', '.join(missing)} not found"
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    command = ["unshare", *user, "--net", "--mount", "--propagation", "private", "--"]
    found = subprocess.run([*command, "sh", "-c", PROBE], check=False, capture_output=True, text=True)
    if found.returncode != 0:
        return (found.stderr.strip().splitlines() or ["no reason given"])[-1]
    os.environ[ISOLATED] = "yes"
    sys.stdout.flush()
    return os.execvp(command[0], [*command, sys.executable, "-m", module, *arguments])


class Machine:
    """One namespace on the bridge; it exists as long as its first process, which only sleeps."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.address = f"10.77.0.{number}"
        self.hardware_address = f"02:00:00:00:00:{number:02x}"
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], start_new_session=True)
        keeper().note("process", self._holder.pid)
        namespace = Path(f"/proc/{self._holder.pid}/ns/net")
        ours = os.readlink("/proc/self/ns/net")
        assert wait_for(lambda: os.readlink(namespace) != ours, 10), "no namespace"
        self.prefix = ("nsenter", f"--net={namespace}", "--")
        link = f"machine{number}"
        run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(self._holder.pid))
        run("ip", "link", "set", link, "master", "bridge", "up")
        run(*self.prefix, "ip", "link", "set", "eth0", "address", self.hardware_address)
        run(*self.prefix, "ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.prefix, "ip", "link", "set", "eth0", "up")
        run(*self.prefix, "ip", "link", "set", "lo", "up")

    def close(self) -> None:
        """The namespace is removed with the last process in it."""
        self._holder.kill()
        self._holder.wait()
        keeper().forget("process", self._holder.pid)


class ClientsMachine:
    """The namespace of this process, with the bridge."""

    number = CLIENTS
    address = f"10.77.0.{CLIENTS}"
    hardware_address = f"02:00:00:00:00:{CLIENTS:02x}"
    prefix: tuple[str, ...] = ()

    def __init__(self) -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "bridge", "address", self.hardware_address, "type", "bridge")
        run("ip", "addr", "add", f"{self.address}/24", "dev", "bridge")
        run("ip", "link", "set", "bridge", "up")


class Network:
    """Machines by number, and what they can't reach."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.machines: dict[int, Machine | ClientsMachine] = {CLIENTS: ClientsMachine()}
        for number in numbers:
            self.machines[number] = Machine(number)
        self._dropped: set[tuple[int, int]] = set()
        for one in self.machines:
            for other in self.machines:
                self._lead(one, other, self.machines[other].hardware_address)

    def drop(self, sender: int, receiver: int) -> None:
        """No packet of the sender reaches the receiver from now on."""
        self._dropped.add((sender, receiver))
        self._lead(sender, receiver, NOWHERE)

    def separate(self, one: int, other: int) -> None:
        """No packet gets from one to the other, or back."""
        self.drop(one, other)
        self.drop(other, one)

    def heal(self) -> None:
        """All packets arrive again."""
        for sender, receiver in self._dropped:
            self._lead(sender, receiver, self.machines[receiver].hardware_address)
        self._dropped.clear()

    def _lead(self, sender: int, receiver: int, hardware_address: str) -> None:
        if sender == receiver:
            return
        machine = self.machines[sender]
        device = "bridge" if machine.number == CLIENTS else "eth0"
        entry = [self.machines[receiver].address, "lladdr", hardware_address, "dev", device, "nud", "permanent"]
        run(*machine.prefix, "ip", "neigh", "replace", *entry)

    def close(self) -> None:
        """Ends all machines; what runs on them is ended first by its owner."""
        for machine in self.machines.values():
            if isinstance(machine, Machine):
                machine.close()
