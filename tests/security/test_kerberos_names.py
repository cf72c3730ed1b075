import pytest

from kafkapy.security.errors import AuthenticationFailedError, InvalidSecurityError
from kafkapy.security.kerberos.short_names import ShortNames


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("", "alice@HOME", "alice"),
        ("DEFAULT", "kafka/broker.example.com@HOME", "kafka"),
        ("DEFAULT", "alice", "alice"),
        ("RULE:[1:$1@$0](.*@ELSEWHERE)s/@.*//,DEFAULT", "bob@ELSEWHERE", "bob"),
        ("RULE:[1:$1@$0](.*@ELSEWHERE)s/@.*//, DEFAULT", "alice@HOME", "alice"),
        ("RULE:[2:$1-$2]", "kafka/b1@ANY", "kafka-b1"),
        ("RULE:[2:$1],RULE:[1:$1.$0]/U", "alice@home", "ALICE.HOME"),
        ("RULE:[1:$1]s/A/a/gL", "ABBA@HOME", "abba"),
        ("RULE:[1:$1]s/a/A/", "banana@HOME", "bAnana"),
        (r"RULE:[1:$1]s/(.)(.)/$2\$$12/", "ab@HOME", "b$a2"),
    ],
)
def test_rules_shorten_principals(rules: str, principal: str, name: str) -> None:
    assert ShortNames(rules, "HOME").name_of(principal) == name


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "alice@ELSEWHERE"),
        ("DEFAULT", "a/b/c@HOME"),
        ("RULE:[2:$1]", "alice@HOME"),
        ("RULE:[1:$1](bob)", "alice@HOME"),
        ("RULE:[1:$1@$0],DEFAULT", "alice@HOME"),
        ("RULE:[1:$2]", "alice@HOME"),
        ("RULE:[1:$]", "alice@HOME"),
        ("RULE:[1:$1]s/a/$/", "alice@HOME"),
        ("RULE:[1:$1]s/(a)/$2/", "alice@HOME"),
        ("DEFAULT", "x\n" * 1000 + "@ELSEWHERE"),
    ],
)
def test_a_principal_without_a_name_is_refused(rules: str, principal: str) -> None:
    with pytest.raises(
        AuthenticationFailedError, match=r"no rule of sasl\.kerberos\.principal\.to\.local\.rules"
    ) as no:
        ShortNames(rules, "HOME").name_of(principal)
    assert len(str(no.value)) < 700
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("rules", ["default", "RULE:[:$1]", "RULE:[1:$1](()", "RULE:[1:$1]s/a/b", "DEFAULT,", "RULE:1"])
def test_rules_that_can_not_be_read_are_refused(rules: str) -> None:
    with pytest.raises(InvalidSecurityError, match=r"sasl\.kerberos\.principal\.to\.local\.rules has"):
        ShortNames(rules, "HOME")
