"""The ``kafkapy`` command."""


def show_version() -> int:
    """Print the version, and whether the compiled loops over records run; return the exit code."""
    from kafkapy import __version__
    from kafkapy.records.scanner import scan_is_compiled

    print(f"kafkapy {__version__} (record scan {'compiled' if scan_is_compiled() else 'interpreted'})")  # noqa: T201
    return 0
