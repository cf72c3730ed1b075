"""The entry point of ``kafkapy``. It handles ``start`` and ``--version`` before it imports the other commands."""

import sys
from collections.abc import Sequence

from kafkapy.cli import show_version


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (the process's own unless ``arguments`` are given); return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["start"]:
        from kafkapy.cli.start_options import parse

        options = parse(words[1:])  # with --help it ends here, before the broker is imported
        from kafkapy.cli.start import run as run_start

        return run_start(options)
    if words[:2] == ["cluster", "start"]:
        from kafkapy.cli.cluster_options import parse as parse_cluster

        options = parse_cluster(words[2:])
        from kafkapy.cli.cluster_start import run as run_cluster

        return run_cluster(options)
    if words == ["--version"]:
        return show_version()
    from kafkapy.cli.app import run

    return run(words)
