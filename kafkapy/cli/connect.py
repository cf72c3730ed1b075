"""Connects commands to brokers, with the security of ``--command-config``.

Every command with ``--bootstrap`` has this option, too: ``secured`` adds it to all of them in one place, and
``connect`` reads what the running command got.
"""

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from kafkapy.cli.settings import UsageError, read_file
from kafkapy.clients.cluster import ClusterClient
from kafkapy.clients.errors import ClientError
from kafkapy.security.settings import NO_SECURITY, ClientSecurity

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="KAFKAPY_COMMAND_CONFIG",
        metavar="FILE",
        help="Client properties with security.protocol, sasl.* and ssl.*, as for Kafka's tools.",
    ),
]
_PARAMETER: Final = inspect.Parameter(
    "command_config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CommandConfig
)
_chosen: ContextVar[Path | None] = ContextVar("command_config", default=None)


def connect(bootstrap: str, timeout_s: float = 10.0) -> ClusterClient:
    """Return a client of the cluster; raises ClientError if the file of ``--command-config`` can't be used."""
    return connect_by(_chosen.get(), bootstrap, timeout_s)


def connect_by(config: Path | None, bootstrap: str, timeout_s: float) -> ClusterClient:
    """Return a client with the security of a properties file; raises ClientError if the file can't be used."""
    return ClusterClient(bootstrap, timeout_s, NO_SECURITY if config is None else _security(config))


def _security(path: Path) -> ClientSecurity:
    from kafkapy.clock import SystemClock
    from kafkapy.security.client import client_security
    from kafkapy.security.errors import InvalidSecurityError

    try:
        return client_security(read_file(str(path)), SystemClock().now_ms())
    except UsageError as error:
        raise ClientError(str(error)) from None
    except InvalidSecurityError as error:
        raise ClientError(f"{path}: {error}") from None


def secured(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with ``--command-config``, if it has ``--bootstrap``."""
    signature = inspect.signature(command)
    if "bootstrap" not in signature.parameters:
        return command

    @wraps(command)
    def run(*arguments: Any, command_config: Path | None = None, **options: Any) -> Any:
        _chosen.set(command_config)
        return command(*arguments, **options)

    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), _PARAMETER])  # type: ignore[attr-defined]  # of inspect
    run.__annotations__ = {**command.__annotations__, _PARAMETER.name: CommandConfig}
    return run
