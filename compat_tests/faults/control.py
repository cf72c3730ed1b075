"""A client of a control port."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Control:
    """The control port at an address."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, **body: Any) -> Any:
        """The answer's JSON; raises `urllib.error.HTTPError` for a refusal."""
        data = json.dumps(body).encode() if body or method == "POST" else None
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    @contextmanager
    def fault(self, **rule: Any) -> Iterator["Fault"]:
        """A rule for the length of a block."""
        fault = Fault(self, self.ask("POST", "/faults", **rule))
        try:
            yield fault
        finally:
            self.ask("DELETE", f"/faults/{fault.number}")


class Fault:
    """A rule that was set."""

    def __init__(self, control: Control, told: Mapping[str, Any]) -> None:
        self.number = told["id"]
        self._control = control

    @property
    def fired(self) -> int:
        """The number of requests to which the rule was applied."""
        fired: int = self._control.ask("GET", f"/faults/{self.number}")["fired"]
        return fired
