"""``kafkapy users``: the SCRAM credentials of a cluster's users."""

import sys
from typing import Annotated

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, for_each, show
from kafkapy.clients import users as client_users
from kafkapy.clients.users import DEFAULT_ITERATIONS, MECHANISMS
from kafkapy.security.scram import FEWEST_ITERATIONS, MOST_ITERATIONS

app = typer.Typer(no_args_is_help=True)

User = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


@app.command("list", epilog=examples("kafkapy users list", "kafkapy users list --json"))
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: Json = False) -> None:
    """List the users with SCRAM credentials, and with which mechanisms."""
    with failures_in_one_line(), connect(bootstrap) as client:
        rows = [each._asdict() for each in client_users.list_users(client)]
    show(rows, as_json=as_json, title="users", if_empty="no users with SCRAM credentials")


@app.command(
    epilog=examples(
        "kafkapy users add alice",
        "kafkapy users add alice --mechanism SCRAM-SHA-512 < password.txt",
        "kafkapy users add alice -b broker:9092 --command-config admin.properties",
    )
)
def add(
    user: User,
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", "-m", help=f"{' or '.join(MECHANISMS)}; repeatable; both without it."),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(help="Work to check a password.", min=FEWEST_ITERATIONS, max=MOST_ITERATIONS),
    ] = DEFAULT_ITERATIONS,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Store a user's password, in place of an earlier one; it is asked for, or read from the standard input."""
    mechanisms = mechanism or list(MECHANISMS)
    for each in mechanisms:
        if each not in MECHANISMS:
            fail(f"{each} is no SCRAM mechanism: write {' or '.join(MECHANISMS)}")
    password = _password()
    with failures_in_one_line(), connect(bootstrap) as client:
        client_users.set_password(client, user, password, mechanisms, iterations)
    done(f"stored: {user}", as_json=as_json, user=user, mechanisms=mechanisms, iterations=iterations)


def _password() -> str:
    if sys.stdin.isatty():
        asked = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return str(asked)
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        fail("no password: the standard input is empty")
    return password


@app.command(epilog=examples("kafkapy users remove alice", "kafkapy users remove alice bob --yes"))
def remove(
    users: Annotated[list[str], typer.Argument(metavar="USER...", help="Names of the users.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Remove all SCRAM credentials of users; open connections stay until they authenticate again."""
    if not yes:
        typer.confirm(f"Remove the credentials of {', '.join(users)}?", abort=True, err=True)
    with failures_in_one_line(), connect(bootstrap) as client:

        def act(name: str) -> bool:
            client_users.remove_user(client, name)
            return True

        for_each(users, act, "removed", as_json=as_json)
