"""The options that the command lines of the attacks share."""

import argparse
import sys
from typing import Final, NamedTuple

SHOWN: Final = argparse.RawDescriptionHelpFormatter


class Bounds(NamedTuple):
    """The latencies that a second client may have, on an otherwise idle machine."""

    p99_s: float = 0.050
    max_s: float = 0.250

    def broken(self, p99_s: float, max_s: float) -> list[str]:
        """The names of the bounds that these latencies exceed."""
        found = {"p99": p99_s > self.p99_s, "max": max_s > self.max_s}
        return [name for name, is_beyond in found.items() if is_beyond]


def parser_of(module: str) -> argparse.ArgumentParser:
    """A parser for ``python -m module``, with the module's text as its description, and the options of all attacks."""
    text = sys.modules[module].__doc__
    name = getattr(sys.modules[module].__spec__, "name", module)
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=text, formatter_class=SHOWN)
    bounds = Bounds()
    parser.add_argument("--p99-ms", type=float, default=bounds.p99_s * 1000, help="what the second client may wait")
    parser.add_argument("--max-ms", type=float, default=bounds.max_s * 1000, help="the same, at worst")
    return parser


def bounds_of(wanted: argparse.Namespace) -> Bounds:
    """The bounds in the arguments."""
    return Bounds(wanted.p99_ms / 1000, wanted.max_ms / 1000)
