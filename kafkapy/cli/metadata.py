"""``kafkapy metadata``: copies a stopped broker's metadata between its own store, a ZooKeeper and a document."""

from pathlib import Path
from typing import Annotated

import typer

from kafkapy.cli.options import Json
from kafkapy.cli.output import examples

app = typer.Typer(no_args_is_help=True)

Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The broker's data directory.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Its server.properties: log.dirs, and zookeeper.ssl.*.")
]
ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT/CHROOT", help="As in zookeeper.connect.")
]
File = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="A JSON document; - is standard input or output.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace other metadata of the same cluster.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be written.")]


@app.command(
    "export",
    epilog=examples(
        "kafkapy metadata export --data ./data --zookeeper localhost:2181/kafka --dry-run",
        "kafkapy metadata export --data ./data --zookeeper localhost:2181/kafka",
        "kafkapy metadata export --data ./data --file metadata.json",
    ),
)
def export_(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    data: Data = None,
    config: Config = None,
    zookeeper: ZooKeeper = None,
    file: File = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Write a stopped broker's metadata to a ZooKeeper, for Apache Kafka to start on its data, or to a document."""
    from kafkapy.cli.metadata_run import Places, RunOptions, export

    export(Places(data, config, zookeeper, file), RunOptions(overwrite, dry_run, as_json))


@app.command(
    "import",
    epilog=examples(
        "kafkapy metadata import --data ./data --zookeeper localhost:2181/kafka --dry-run",
        "kafkapy metadata import --data ./data --zookeeper localhost:2181/kafka",
        "kafkapy metadata import --data ./data --file metadata.json --overwrite",
    ),
)
def import_(  # noqa: PLR0913, PLR0917  # typer reads a command's options from its parameters
    data: Data = None,
    config: Config = None,
    zookeeper: ZooKeeper = None,
    file: File = None,
    overwrite: Overwrite = False,
    only_this_broker: Annotated[
        bool,
        typer.Option("--only-this-broker", help="Import only this broker's replicas if there are several brokers."),
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Read a stopped cluster's metadata from a ZooKeeper or a document, for kafkapy to start on its data directory."""
    from kafkapy.cli.metadata_run import Places, RunOptions, import_

    options = RunOptions(overwrite, dry_run, as_json)
    import_(Places(data, config, zookeeper, file), options, only_this_broker=only_this_broker)


@app.command(
    "rebuild",
    epilog=examples(
        "kafkapy metadata rebuild --data ./data --dry-run",
        "kafkapy metadata rebuild --data ./data",
        "kafkapy metadata rebuild --config server.properties --json",
    ),
)
def rebuild_(data: Data = None, config: Config = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Rebuild a stopped broker's lost metadata from its partitions' folders; configurations can't be recovered."""
    from kafkapy.cli.metadata_run import RunOptions, rebuild

    rebuild(data, config, RunOptions(overwrite=False, dry_run=dry_run, as_json=as_json))
