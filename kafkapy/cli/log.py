"""``kafkapy log``: shows, checks and repairs the files of a data directory, without a broker or a JVM."""

from pathlib import Path
from typing import Annotated

import typer

from kafkapy.cli.options import Json, Yes
from kafkapy.cli.output import examples

app = typer.Typer(no_args_is_help=True)

Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, partitions' folders or data directories.")]


@app.command(
    epilog=examples(
        "kafkapy log dump ./data/flights-0",
        "kafkapy log dump ./data/flights-0 --records --from-offset 100 --limit 20",
        "kafkapy log dump ./data/__consumer_offsets-3 --records",
        "kafkapy log dump ./data/flights-0/00000000000000000000.timeindex --json",
    )
)
def dump(  # typer reads a command's options from its parameters
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or partitions' folders.")],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also the records in the batches.")] = False,
    decoder: Annotated[
        str, typer.Option("--decoder", help="auto, none, offsets or transactions: how to decode keys and values.")
    ] = "auto",
    from_offset: Annotated[int, typer.Option("--from-offset", min=0, help="Begin at this offset.")] = 0,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Stop after this many lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Show the contents of files: batches, records, index entries, snapshots, checkpoints."""
    from kafkapy.cli.log_dump import DumpOptions, run

    run([str(path) for path in paths], DumpOptions(records, decoder, from_offset, limit, as_json))


@app.command(
    epilog=examples(
        "kafkapy log verify ./data",
        "kafkapy log verify ./data/flights-0 --json",
        "kafkapy log verify ./data/flights-0/00000000000000000000.index",
    )
)
def verify(
    paths: Paths,
    headers_only: Annotated[
        bool, typer.Option("--headers-only", help="Check only CRCs and headers of batches, not the records.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check files against each other. Exit code 0: no problems, 3: a start repairs them, 1: records may be lost."""
    from kafkapy.cli.log_verify import run

    run([str(path) for path in paths], headers_only=headers_only, as_json=as_json)


@app.command(
    epilog=examples(
        "kafkapy log repair ./data --dry-run", "kafkapy log repair ./data", "kafkapy log repair ./data --whole --yes"
    )
)
def repair(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="All data directories of one broker.")],
    whole: Annotated[
        bool, typer.Option("--whole", help="Read every segment, not only those that a start would recover.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Repair data directories as the start of a broker would, and list the changes. No broker may be running."""
    from kafkapy.cli.log_repair import RepairOptions, run

    run([str(path) for path in paths], RepairOptions(whole, dry_run, yes, as_json))
