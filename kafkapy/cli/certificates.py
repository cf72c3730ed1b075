"""``kafkapy certificates``: an authority and certificates for tests and small installations."""

from pathlib import Path
from typing import Annotated

import typer

from kafkapy.cli.options import Json
from kafkapy.cli.output import done, examples, fail, fail_with, say
from kafkapy.clock import SystemClock
from kafkapy.security.errors import needs_extra

app = typer.Typer(no_args_is_help=True)

PRIVATE_MODE = 0o600


@app.callback()
def _group() -> None:
    """Make certificates for tests and small installations."""


@app.command(
    epilog=examples(
        "kafkapy certificates create ./tls",
        "kafkapy certificates create ./tls --host kafka.example --host 10.0.0.7 --client alice",
    )
)
def create(
    directory: Annotated[Path, typer.Argument(help="Where the files are written; it must not exist.")],
    host: Annotated[
        list[str] | None, typer.Option(help="Name or address of the broker; repeatable. Without it: localhost.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(help="Also a certificate of a client with this name; repeatable.")
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long the certificates are valid.")] = 365,
    as_json: Json = False,
) -> None:
    """Make a new authority, and sign the certificates of a broker and of clients with it.

    The authority's own key is not stored: all certificates come from one call. Each .pem file has a private key and its
    certificate, and is readable by you alone; ca.pem is the certificate that clients and brokers trust.
    """
    try:
        from kafkapy.security.certificates import LOCAL_HOSTS, Authority
    except ImportError:
        fail(str(needs_extra("kafkapy certificates create")))
    hosts = host or list(LOCAL_HOSTS)
    authority = Authority("kafkapy authority", SystemClock().now_ms(), days)
    files = {"ca.pem": authority.certificate, "broker.pem": "".join(authority.issue(hosts[0], hosts, days))}
    for name in client or []:
        if not name or "/" in name or name in {"ca", "broker", ".", ".."}:
            fail(f"{name!r} is no name of a client's certificate")
        files[f"{name}.pem"] = "".join(authority.issue(name, (), days))
    try:
        directory.mkdir(parents=True)
        for name, text in files.items():
            path = directory / name
            path.touch(PRIVATE_MODE)
            path.write_text(text)
    except OSError as error:
        fail_with(error)
    done(f"written: {', '.join(f'{directory / name}' for name in files)}", as_json=as_json, files=list(files))
    if not as_json:
        say("A broker's server.properties:")
        for line in _settings(directory.absolute()):
            say(f"  {line}")


def _settings(directory: Path) -> list[str]:
    return [
        "listeners=SSL://:9093",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={directory}/broker.pem",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={directory}/ca.pem",
    ]
