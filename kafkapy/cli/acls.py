"""``kafkapy acls``."""

from collections.abc import Sequence
from enum import IntEnum
from itertools import product
from typing import Annotated, Any, Final

import typer

from kafkapy.cli.connect import connect
from kafkapy.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes
from kafkapy.cli.output import counted, done, examples, fail, failures_in_one_line, say, show
from kafkapy.clients.acls import Acl, AclSelection, add_acls, list_acls, remove_acls
from kafkapy.protocol.constants import AclOperation, AclPatternType, AclPermissionType, AclResourceType

app = typer.Typer(no_args_is_help=True)

CLUSTER: Final = "cluster"
CLUSTER_NAME: Final = "kafka-cluster"
EVERY: Final = "*"


def _name(value: IntEnum) -> str:
    return value.name.lower().replace("_", "-")


_KINDS: Final = {_name(each): each for each in AclResourceType if each is not AclResourceType.ANY}
_OPERATIONS: Final[dict[str, AclOperation]] = {_name(each): each for each in AclOperation if each > AclOperation.ANY}
_NONE: Final[list[str]] = []

RESOURCE_HELP: Final = (
    "topic:NAME, group:ID, transactional-id:ID, delegation-token:ID, user:User:NAME or cluster; "
    "NAME* is a prefix, and * alone every name."
)
Resources = Annotated[list[str], typer.Argument(metavar="RESOURCE...", help=RESOURCE_HELP)]
Principal = Annotated[str | None, typer.Option("--principal", "-p", help="Only those of a principal: User:NAME.")]
Operations = Annotated[
    list[str],
    typer.Option("--operation", "-o", metavar="OPERATION", help=f"{', '.join(_OPERATIONS)}; may be repeated."),
]

Resource = tuple[int, str, int]
"""The kind, the name, and the type of the pattern."""


@app.command(
    "list",
    epilog=examples("kafkapy acls list", "kafkapy acls list topic:flights", "kafkapy acls list --principal User:ann"),
)
def list_(
    resources: Annotated[list[str] | None, typer.Argument(metavar="[RESOURCE...]", help=RESOURCE_HELP)] = None,
    principal: Principal = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """List ACLs: all, or those that hold for the named resources, with the ACLs of prefixes and of every name."""
    asked = [(kind, name, AclPatternType.MATCH) for kind, name, _ in _parsed_resources(resources or ())]
    selections = [AclSelection(*each, principal=principal) for each in asked] or [AclSelection(principal=principal)]
    with failures_in_one_line(), connect(bootstrap) as client:
        found = {acl for each in selections for acl in list_acls(client, each)}
    show([_row(acl) for acl in sorted(found)], as_json=as_json, title="ACLs")


@app.command(
    epilog=examples(
        "kafkapy acls add topic:flights group:spark --allow User:ann --operation read",
        "kafkapy acls add 'topic:app-*' --allow User:app",
        "kafkapy acls add 'topic:*' --deny 'User:*' --host 10.0.0.7",
        "kafkapy acls add cluster --allow User:broker --operation cluster-action",
    )
)
def add(
    resources: Resources,
    allow: Annotated[list[str], typer.Option("--allow", metavar="PRINCIPAL", help="Who may do it.")] = _NONE,
    deny: Annotated[list[str], typer.Option("--deny", metavar="PRINCIPAL", help="Who must not do it.")] = _NONE,
    operation: Operations = _NONE,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="From where; * is everywhere.")] = EVERY,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Allow or deny principals operations on resources, all of them by default; a denial counts more."""
    permissions = [(each, AclPermissionType.ALLOW) for each in allow] + [
        (each, AclPermissionType.DENY) for each in deny
    ]
    if not permissions:
        fail("name a principal with --allow or --deny, such as User:ann, or User:* for everybody")
    operations = _parsed_operations(operation) or [AclOperation.ALL]
    acls = [
        Acl(*resource, principal, host, each, permission)
        for resource, each, (principal, permission) in product(_parsed_resources(resources), operations, permissions)
    ]
    with failures_in_one_line(), connect(bootstrap) as client:
        add_acls(client, acls)
    say(f"added: {counted(len(acls), 'ACL')}")


@app.command(
    epilog=examples(
        "kafkapy acls remove topic:flights",
        "kafkapy acls remove topic:flights --principal User:ann --operation read --yes",
    )
)
def remove(
    resources: Resources,
    principal: Principal = None,
    operation: Operations = _NONE,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Json = False,
) -> None:
    """Remove the ACLs of resources: all, or those of a principal or of operations."""
    operations = _parsed_operations(operation) or [AclOperation.ANY]
    selections = [
        AclSelection(*resource, principal, operation=each)
        for resource, each in product(_parsed_resources(resources), operations)
    ]
    with failures_in_one_line(), connect(bootstrap) as client:
        if not yes:
            found = {acl for each in selections for acl in list_acls(client, each)}
            show([_row(acl) for acl in sorted(found)], as_json=False, title="ACLs", to_error=True)
            typer.confirm(f"Remove {counted(len(found), 'ACL')}?", abort=True, err=True)
        removed = remove_acls(client, selections)
    message = f"removed: {counted(len(removed), 'ACL')}"
    done(message, as_json=as_json, removed=[_row(acl) for acl in removed])


def _parsed_resources(texts: Sequence[str]) -> list[Resource]:
    return [_parsed_resource(text) for text in texts]


def _parsed_resource(text: str) -> Resource:
    kind, _, name = text.partition(":")
    if text == CLUSTER:
        name = CLUSTER_NAME
    if kind not in _KINDS or not name:
        fail(f"{text!r} is no resource: write topic:NAME, group:ID, transactional-id:ID or cluster")
    if name.endswith(EVERY) and name != EVERY:
        return _KINDS[kind], name.removesuffix(EVERY), AclPatternType.PREFIXED
    return _KINDS[kind], name, AclPatternType.LITERAL


def _parsed_operations(names: Sequence[str]) -> list[AclOperation]:
    operations: list[AclOperation] = []
    for name in names:
        operation = _OPERATIONS.get(name.lower().replace("_", "-"))
        if operation is None:
            fail(f"there is no operation {name!r}: the operations are {', '.join(_OPERATIONS)}")
        operations.append(operation)
    return operations


def _row(acl: Acl) -> dict[str, Any]:
    name = acl.name + EVERY if acl.pattern_type == AclPatternType.PREFIXED else acl.name
    kind = _shown(AclResourceType, acl.resource_type)
    return {
        "resource": CLUSTER if acl.resource_type == AclResourceType.CLUSTER else f"{kind}:{name}",
        "permission": _shown(AclPermissionType, acl.permission_type),
        "principal": acl.principal,
        "operation": _shown(AclOperation, acl.operation),
        "host": acl.host,
    }


def _shown(values: type[IntEnum], code: int) -> str:
    """The name of a code; a later release may have codes that are not known here."""
    return _name(values(code)) if code in set(values) else str(code)
