import pytest

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.jaas import parse_jaas

KEY = "listener.name.x.plain.sasl.jaas.config"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.b.C required;", {}),
        ('a.b.C REQUIRED user="x" password="y z";', {"user": "x", "password": "y z"}),
        ("a.b.C optional a=b c='d\"e' ;", {"a": "b", "c": 'd"e'}),
        ('a.b.C required a="q\\"uote" b="back\\\\slash";', {"a": 'q"uote', "b": "back\\slash"}),
        ('a.b.C required // a comment\n /* another */ user_alice = "s;=" ;', {"user_alice": "s;="}),
        ('a.b.C required a="";', {"a": ""}),
    ],
)
def test_options_are_read(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(KEY, text) == ("a.b.C", options)


@pytest.mark.parametrize(
    "text",
    ["", ";", "a.b.C", "a.b.C required", "a.b.C maybe;", "a.b.C required secret;", "a.b.C required a=secret b;",
     "a.b.C required a==;", 'a.b.C required a="secret;',
     "a.b.C required; d.e.F required;", "a.b.C required a=secret!;"],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(InvalidSecurityError) as refused:
        parse_jaas(KEY, text)
    assert KEY in str(refused.value)
    assert "secret" not in str(refused.value)
