import pytest

from kafkapy.security.errors import InvalidSecurityError
from kafkapy.security.jaas import parse_jaas, parse_jaas_section

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
     "a.b.C required; d.e.F required;", "{ required;", "a.b.C required a=secret!;"],
)  # fmt: skip
def test_what_can_not_be_read_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(InvalidSecurityError) as refused:
        parse_jaas(KEY, text)
    assert KEY in str(refused.value)
    assert "secret" not in str(refused.value)


FILE = """// of a broker
KafkaServer { a.b.C required; d.e.F optional user="};"; };
Client { g.H required user=kafka /* { */ ; };
"""


def test_the_named_section_of_a_file_is_read() -> None:
    assert parse_jaas_section("f", FILE, "Client") == ("g.H", {"user": "kafka"})
    assert parse_jaas_section("f", FILE, "Other") is None
    assert parse_jaas_section("f", "", "Client") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Client", "f can't be read: its sections must be NAME"),
        ("Client { a.B required p=secret; }", "f can't be read: its sections must be NAME"),
        ("Client a.B required p=secret; };", "f can't be read: its sections must be NAME"),
        ("{ { a.B required p=secret; };", "f can't be read: its sections must be NAME"),
        ("}; Client { a.B required p=secret; };", "f can't be read: its sections must be NAME"),
        ("Client { };", "section Client of f can't be read: it must be CLASS"),
        ("Client { a.B required p=secret; c.D required; };", "section Client of f can't be read: an option is not"),
    ],
)
def test_a_file_that_can_not_be_read_is_refused_without_its_secrets(text: str, message: str) -> None:
    with pytest.raises(InvalidSecurityError, match=message) as refused:
        parse_jaas_section("f", text, "Client")
    assert "secret" not in str(refused.value)
