"""``kafkapy acls`` on a broker with an authorizer, and on one without."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.clients.thread_broker import thread_broker

SETTINGS = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with thread_broker(tmp_path_factory.mktemp("guarded"), **SETTINGS) as address:
        yield address


@pytest.fixture
def acls(run: Run, guarded: str) -> Run:
    return lambda *words, stdin=b"": run("acls", *words, "-b", guarded, stdin=stdin)


def test_add_list_and_remove(acls: Run) -> None:
    assert acls("list").out == "ACLs: none\n"
    added = acls("add", "topic:flights", "group:spark", "--allow", "User:ann", "-o", "read", "-o", "DESCRIBE_CONFIGS")
    assert added.out == "added: 4 ACLs\n"
    assert acls("add", "topic:app-*", "topic:*", "--deny", "User:*", "--host", "10.0.0.7").out == "added: 2 ACLs\n"
    assert acls("add", "cluster", "--allow", "User:broker", "-o", "cluster-action").out == "added: 1 ACL\n"
    listed = json.loads(acls("list", "topic:flights", "--json").out)
    assert [
        (row["resource"], row["permission"], row["principal"], row["operation"], row["host"]) for row in listed
    ] == [
        ("topic:*", "deny", "User:*", "all", "10.0.0.7"),
        ("topic:flights", "allow", "User:ann", "read", "*"),
        ("topic:flights", "allow", "User:ann", "describe-configs", "*"),
    ]
    assert "topic:app-*" in acls("list", "topic:app-1").out
    assert len(json.loads(acls("list", "--principal", "User:ann", "--json").out)) == 4
    assert acls("remove", "topic:flights", stdin=b"n\n").code == 1
    removed = acls("remove", "topic:flights", "-p", "User:ann", "-o", "read", stdin=b"y\n")
    assert removed.out.strip() == "removed: 1 ACL"
    assert "User:ann" in removed.err
    removed = acls("remove", "topic:app-*", "topic:*", "cluster", "topic:flights", "group:spark", "--yes", "--json")
    assert len(json.loads(removed.out)["removed"]) == 6
    assert acls("list").out == "ACLs: none\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "topic:t"], "name a principal with --allow or --deny"),
        (["add", "flights", "--allow", "User:a"], "'flights' is no resource"),
        (["add", "topic:", "--allow", "User:a"], "'topic:' is no resource"),
        (["add", "topic:t", "--allow", "User:a", "-o", "fly"], "there is no operation 'fly'"),
        (["add", "topic:t", "--allow", "ann"], "TYPE:NAME"),
    ],
)
def test_mistakes(acls: Run, words: list[str], message: str) -> None:
    ran = acls(*words)
    assert ran.code != 0
    assert message in ran.err


def test_a_broker_without_an_authorizer(run: Run) -> None:
    for words in (["list"], ["add", "topic:t", "--allow", "User:a"], ["remove", "topic:t", "--yes"]):
        assert "No Authorizer is configured on the broker" in run("acls", *words).err
