"""``kafkapy quotas``: how much users and client ids may take."""

from typing import Annotated

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, show
from kafkapy.clients import quotas as client_quotas
from kafkapy.clients.quotas import KEYS, ClientQuota

app = typer.Typer(no_args_is_help=True)

DEFAULT = "<default>"

User = Annotated[str | None, typer.Option("--user", help=f"A user; {DEFAULT} for all that have no quota of their own.")]
ClientId = Annotated[
    str | None, typer.Option("--client-id", help=f"A client id; {DEFAULT} for all that have no quota of their own.")
]
_LIMIT_HELP = f"KEY=NUMBER; repeatable. Keys: {', '.join(KEYS)} (bytes, percent of a thread, partitions a second)."


def _row(quota: ClientQuota) -> dict[str, object]:
    names = {kind: DEFAULT if name is None else name for kind, name in quota.entity.items()}
    return {
        "user": names.get("user"),
        "client-id": names.get("client-id"),
        **{key: quota.limits.get(key) for key in KEYS},
    }


@app.command("list", epilog=examples("kafkapy quotas list", "kafkapy quotas list --json"))
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """List all quotas."""
    with failures_in_one_line(), connect(bootstrap) as client:
        rows = [_row(each) for each in client_quotas.list_quotas(client)]
    show(rows, as_json=as_json, title="quotas", if_empty="none: clients may take as much as they can")


@app.command(
    "set",
    epilog=examples(
        "kafkapy quotas set --client-id import producer_byte_rate=1000000",
        "kafkapy quotas set --user alice consumer_byte_rate=5000000 request_percentage=25",
        "kafkapy quotas set --user '<default>' --client-id '<default>' producer_byte_rate=10000",
    ),
)
def set_(
    limits: Annotated[list[str], typer.Argument(metavar="KEY=NUMBER...", help=_LIMIT_HELP)],
    user: User = None,
    client_id: ClientId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Limit what a user, a client id, or a client id of a user takes; it holds from its next request on."""
    parsed = dict(_parsed(each) for each in limits)
    entity = _entity(user, client_id)
    with failures_in_one_line(), connect(bootstrap) as client:
        client_quotas.alter_quotas(client, entity, parsed)
    done(f"set: {' '.join(limits)}", as_json=as_json, **_shown(entity), limits=parsed)


@app.command(
    epilog=examples("kafkapy quotas remove --client-id import producer_byte_rate", "kafkapy quotas remove --user alice")
)
def remove(
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY...]", help="Which limits; all without any.")] = None,
    user: User = None,
    client_id: ClientId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Remove limits of a user, a client id, or a client id of a user."""
    wanted = keys or list(KEYS)
    for key in wanted:
        _check(key)
    entity = _entity(user, client_id)
    with failures_in_one_line(), connect(bootstrap) as client:
        client_quotas.alter_quotas(client, entity, dict.fromkeys(wanted))
    done(f"removed: {' '.join(wanted)}", as_json=as_json, **_shown(entity), removed=wanted)


def _parsed(word: str) -> tuple[str, float]:
    key, separator, number = word.partition("=")
    _check(key)
    try:
        return key, float(number)
    except ValueError:
        fail(f"{word}: write {key}=NUMBER" if separator else f"{word}: write {key}=NUMBER for its limit")


def _check(key: str) -> None:
    if key not in KEYS:
        fail(f"{key} is no quota: write {' or '.join(KEYS)}")


def _entity(user: str | None, client_id: str | None) -> dict[str, str | None]:
    if user is None and client_id is None:
        fail("whose quota? Give --user, --client-id or both")
    named = {"user": user, "client-id": client_id}
    return {kind: None if name == DEFAULT else name for kind, name in named.items() if name is not None}


def _shown(entity: dict[str, str | None]) -> dict[str, object]:
    return {kind.replace("-", "_"): name for kind, name in entity.items()}
