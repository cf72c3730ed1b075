"""``kafkapy configs``."""

from enum import StrEnum
from typing import Annotated

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from kafkapy.cli.output import done, examples, fail, failures_in_one_line, parse_pairs, show
from kafkapy.clients import configs as client_configs

app = typer.Typer(no_args_is_help=True)


class Kind(StrEnum):
    """The kinds of resources that have a configuration."""

    TOPIC = "topic"
    GROUP = "group"
    BROKER = "broker"
    BROKERS = "brokers"


KindArgument = Annotated[Kind, typer.Argument(help="A topic, a group, one broker, or all brokers.")]
_DEFAULT_SOURCE = 5


@app.command(
    epilog=examples(
        "kafkapy configs describe topic flights",
        "kafkapy configs describe broker 1001 --all",
        "kafkapy configs describe brokers --json",
        "kafkapy configs describe topic flights --all --docs",
    )
)
def describe(
    kind: KindArgument,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The name of the topic, or the id.")] = "",
    all_: Annotated[bool, typer.Option("--all", "-a", help="Also keys with their default values.")] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Also the broker's documentation of each key.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Show the settings of a topic, a group, a broker or all brokers; with --all every key."""
    with failures_in_one_line(), connect(bootstrap) as client:
        found = client_configs.describe(client, *_resource(kind, name), documentation=docs)
    rows = [
        {
            "key": config.name,
            "value": "[hidden]" if config.is_sensitive else config.value,
            "source": client_configs.SOURCES.get(config.config_source, str(config.config_source)),
            "read_only": config.read_only,
            **({"documentation": config.documentation} if docs else {}),
        }
        for config in found
        if all_ or config.config_source != _DEFAULT_SOURCE
    ]
    hint = "" if all_ or kind is Kind.BROKERS else "; --all shows the defaults too"
    show(rows, as_json=as_json, title=f"{kind.value} {name}".strip(), if_empty=f"no keys are set{hint}")


@app.command(
    epilog=examples(
        "kafkapy configs alter topic flights retention.ms=3600000",
        "kafkapy configs alter topic flights --delete retention.ms",
        "kafkapy configs alter group readers consumer.heartbeat.interval.ms=6000",
        "kafkapy configs alter brokers num.io.threads=16",
    )
)
def alter(
    kind: KindArgument,
    words: Annotated[list[str] | None, typer.Argument(metavar="[NAME] [KEY=VALUE]...", show_default=False)] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option("--delete", "-d", metavar="KEY", help="Remove the setting of this key; repeatable."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Set or delete single keys; the others stay as they are."""
    given = list(words or [])
    name = given.pop(0) if kind is not Kind.BROKERS and given and "=" not in given[0] else ""
    values, deleted = parse_pairs(given), delete or []
    if not values and not deleted:
        fail("nothing to alter: give key=value or --delete key")
    with failures_in_one_line(), connect(bootstrap) as client:
        client_configs.alter(client, *_resource(kind, name), values, deleted)
    done(f"altered: {', '.join([*values, *deleted])}", as_json=as_json, set=values, deleted=deleted)


def _resource(kind: Kind, name: str) -> tuple[str, str]:
    if kind is Kind.BROKERS:
        if name:
            fail("'brokers' means all brokers: it takes no name")
        return "broker", ""
    if not name:
        fail(f"which {kind.value}? give its {'name' if kind is Kind.TOPIC else 'id'}")
    return kind.value, name
