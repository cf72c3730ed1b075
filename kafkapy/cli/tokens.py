"""``kafkapy tokens``: delegation tokens, by which programs log in as the user who has made the token."""

import sys
from base64 import b64decode, b64encode
from binascii import Error as BinasciiError
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from kafkapy.cli.output import Row, done, examples, fail, failures_in_one_line, say, show
from kafkapy.clients.delegation_tokens import (
    BROKERS_LIMIT_MS,
    Token,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from kafkapy.text import printable_json

app = typer.Typer(no_args_is_help=True)

_NONE: Final[list[str]] = []
_REMOVE_MS: Final = -1
Hmac = Annotated[
    str | None,
    typer.Argument(
        metavar="[HMAC]",
        help="The token's HMAC as create prints it; read from the standard input without it: other users of the "
        "machine can see a command's words.",
    ),
]


@app.command(
    epilog=examples(
        "kafkapy tokens create --command-config alice.properties",
        "kafkapy tokens create --renewer User:scheduler --max-lifetime-ms 3600000 --command-config alice.properties",
        "kafkapy tokens create --owner User:bob --command-config alice.properties",
    )
)
def create(
    renewer: Annotated[
        list[str], typer.Option("--renewer", metavar="PRINCIPAL", help="Who may renew it too; may be repeated.")
    ] = _NONE,
    max_lifetime_ms: Annotated[
        int, typer.Option(help="The longest time that it may exist, at most that of the broker, which -1 is.")
    ] = BROKERS_LIMIT_MS,
    owner: Annotated[
        str | None,
        typer.Option(metavar="PRINCIPAL", help="Whose token it becomes, if the user may create tokens of that one."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Make a token of the user who is logged in, and print it; its HMAC is a password."""
    principals, owners = _principals(renewer), _principals([] if owner is None else [owner])
    with failures_in_one_line(), connect(bootstrap) as client:
        row = _row(create_token(client, principals, max_lifetime_ms, *owners))
    if as_json:
        typer.echo(printable_json(row))
    else:
        _say_lines(row)


@app.command(
    epilog=examples(
        "kafkapy tokens renew --command-config alice.properties < hmac.txt",
        "kafkapy tokens renew --period-ms 3600000 --command-config alice.properties < hmac.txt",
    )
)
def renew(
    hmac: Hmac = None,
    period_ms: Annotated[
        int, typer.Option(help="When it expires, counted from now; that of the broker with -1.")
    ] = BROKERS_LIMIT_MS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Let a token expire later, at most at the end of its lifetime."""
    token_hmac = _hmac(hmac)
    with failures_in_one_line(), connect(bootstrap) as client:
        expires = _time(renew_token(client, token_hmac, period_ms))
    done(f"renewed: the token expires at {expires}", as_json=as_json, expires=expires)


@app.command(
    epilog=examples(
        "kafkapy tokens expire --command-config alice.properties < hmac.txt",
        "kafkapy tokens expire --period-ms 60000 --command-config alice.properties < hmac.txt",
    )
)
def expire(
    hmac: Hmac = None,
    period_ms: Annotated[
        int, typer.Option(help="When it expires, counted from now; -1 removes it at once.")
    ] = _REMOVE_MS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Remove a token, or let it expire earlier; open connections stay."""
    token_hmac = _hmac(hmac)
    with failures_in_one_line(), connect(bootstrap) as client:
        expires = _time(expire_token(client, token_hmac, period_ms))
    message = "removed: the token" if period_ms < 0 else f"changed: the token expires at {expires}"
    done(message, as_json=as_json, expires=expires)


@app.command(
    epilog=examples(
        "kafkapy tokens describe --command-config alice.properties",
        "kafkapy tokens describe --owner User:alice --json --command-config admin.properties",
    )
)
def describe(
    owner: Annotated[
        list[str], typer.Option("--owner", metavar="PRINCIPAL", help="Only those of a principal; may be repeated.")
    ] = _NONE,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List the tokens that the user may see: its own, those it may renew, and those with Describe; with their HMACs."""
    owners = _principals(owner)
    with failures_in_one_line(), connect(bootstrap) as client:
        rows = [_row(token) for token in describe_tokens(client, owners)]
    if as_json or not rows:
        show(rows, as_json=as_json, title="tokens")
    for number, row in enumerate(() if as_json else rows):
        if number:
            say("")
        _say_lines(row)


def _principals(texts: Sequence[str]) -> Sequence[str]:
    for text in texts:
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            fail(f"{text!r} is no principal: write User:NAME")
    return texts


def _hmac(argument: str | None) -> bytes:
    """The bytes of an HMAC, which is asked for on a terminal."""
    text = argument
    if text is None and sys.stdin.isatty():
        text = str(typer.prompt("HMAC", hide_input=True, err=True))
    elif text is None:
        text = sys.stdin.readline()
    try:
        found = b64decode(text.strip(), validate=True)
    except BinasciiError:
        fail("the HMAC can't be read: it must be the text that create has printed")
    return found or fail("no HMAC: the standard input is empty")


def _row(token: Token) -> Row:
    return {
        "token_id": token.token_id,
        "hmac": b64encode(token.hmac).decode(),
        "owner": token.owner,
        "renewers": list(token.renewers),
        "issued": _time(token.issue_ms),
        "expires": _time(token.expiry_ms),
        "max": _time(token.max_ms),
    }


def _say_lines(row: Row) -> None:
    """Print a token in lines: a table would fold its HMAC, which can't be copied then."""
    for name, value in row.items():
        say(f"{name.replace('_', ' ')}: {', '.join(value) or '-' if isinstance(value, list) else value}")


def _time(time_ms: int) -> str:
    """A time as ISO 8601, or as a number if no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):
        return str(time_ms)
