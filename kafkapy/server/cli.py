"""The ``kafkapy`` command. ``start`` and ``--version`` are told apart here, before anything heavy is imported."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (the process's own unless ``arguments`` are given); the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["start"]:
        from kafkapy.server.commands.start_options import parse

        options = parse(words[1:])  # help ends here, before the broker is imported
        from kafkapy.server.commands.start import run as run_start

        return run_start(options)
    if words == ["--version"]:
        return _show_version()
    from kafkapy.server.commands.app import run

    return run(words)


def _show_version() -> int:
    from kafkapy import __version__
    from kafkapy.records.scanner import scan_is_compiled

    print(f"kafkapy {__version__} (record scan {'compiled' if scan_is_compiled() else 'interpreted'})")  # noqa: T201
    return 0
