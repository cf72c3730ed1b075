"""Optional parts of ``kafkapy start``: a trace, a control port.

They are imported only if an option asks for them, so that other brokers start as quickly and need as little memory as
without this module.
"""

import argparse
import logging
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from kafkapy.cli.settings import UsageError
from kafkapy.clock import Clock, SystemClock
from kafkapy.server.dispatch.interception import Hooks

if TYPE_CHECKING:
    from kafkapy.observe.trace.trace import Trace
    from kafkapy.server.lifecycle.broker import BrokerServer
    from kafkapy.testing.control.port import ControlPort

logger: Final = logging.getLogger("kafkapy")

STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
LEFT_OUT: Final = "… %d lines left out: they came faster than they could be written"
LEFT_OUT_JSON: Final = '{"kind": "left out", "lines": %d}'


class StartHooks:
    """A broker's clock and hooks, and its control port, from ``open`` to ``close``."""

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self.hooks = Hooks()
        self.control: ControlPort | None = None
        self._broker: BrokerServer | None = None
        self._cleanup = AsyncExitStack()

    def open(self, options: argparse.Namespace) -> None:
        """Create the trace and the control port if options ask for them. Raises ``UsageError`` and ``ListenError``."""
        trace = open_trace(options)
        if trace is not None:
            self.hooks = Hooks(trace=trace)
            self._cleanup.callback(trace.close)
        if options.control_port is not None:
            self._open_control(options.control_port)

    def _open_control(self, port: int) -> None:
        from kafkapy.testing.clock.moving import MovingClock
        from kafkapy.testing.clock.stamped_files import StampedFiles
        from kafkapy.testing.control.port import ControlPort
        from kafkapy.testing.control.routes import Controlled
        from kafkapy.testing.faults import Faults

        clock, faults = MovingClock(), Faults()
        self.clock = clock
        self.hooks = Hooks(faults, self.hooks.trace, connection_clock=SystemClock(), files=StampedFiles(clock))
        self.control = ControlPort(Controlled(faults, clock, self._bootstrap), port)
        self._cleanup.push_async_callback(self.control.stop)

    @property
    def addresses(self) -> list[str]:
        """The address of the control port, if there is one."""
        return [] if self.control is None else [self.control.url]

    def _bootstrap(self) -> str:
        assert self._broker is not None, "the control port is served after the broker"
        return self._broker.bootstrap

    async def serve(self, broker: "BrokerServer") -> None:
        """Serve the control port; the broker has started."""
        self._broker = broker
        if self.control is not None:
            await self.control.start()
            logger.info("Control port: %s/ (faults and clock, for tests on this machine)", self.control.url)

    async def close(self) -> None:
        """Close the control port; write the queued trace lines and close the trace."""
        await self._cleanup.aclose()


def open_trace(options: argparse.Namespace) -> "Trace | None":
    """The trace that the options ask for. Raises ``UsageError`` for an invalid filter.

    It is written to standard output; with ``--print-bootstrap``, which keeps that for addresses, to standard error.
    """
    text, as_json = options.trace_json, True
    if text is None:
        text, as_json = options.trace, False
    if text is None:
        return None
    from kafkapy.observe.trace import lines
    from kafkapy.observe.trace.filter import TraceFilterError, parse_filter
    from kafkapy.observe.trace.output import TraceOutput
    from kafkapy.observe.trace.trace import Trace

    try:
        wanted = parse_filter(text)
    except TraceFilterError as error:
        raise UsageError(str(error)) from error
    descriptor = STANDARD_ERROR if options.print_bootstrap else STANDARD_OUTPUT
    output = TraceOutput(descriptor)
    if as_json:
        return Trace(output, lines.as_json, LEFT_OUT_JSON, wanted)
    in_color = os.isatty(descriptor) and not os.environ.get("NO_COLOR")
    return Trace(output, lines.as_colored_text if in_color else lines.as_text, LEFT_OUT, wanted)
