"""The syntax of ``java.util.Properties``; Java itself read the expected values."""

import pytest

from kafkapy.config.errors import InvalidConfigError
from kafkapy.config.properties import parse


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("\n \t\f\r\n", {}),
        ("# a\n! b\n  # c=d\n", {}),
        ("a=b", {"a": "b"}),
        ("a = b ", {"a": "b "}),
        ("a : b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=b", {"": "b"}),
        ("a==b", {"a": "=b"}),
        ("a= = b", {"a": "= b"}),
        ("a=b#c", {"a": "b#c"}),
        ("a=1\ra=2\r\na=3\na=4", {"a": "4"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\r\n\tc\nd=e", {"a": "bc", "d": "e"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a=b\\\n# c\nd=e", {"a": "b# c", "d": "e"}),
        ("\\\n# a\nb=c", {"b": "c"}),
        ("\\\n\\\r\n  \n! a\\\nb=c", {"b": "c"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("# comment \\\na=b", {"a": "b"}),
        ("a\\ b=c\\=d", {"a b": "c=d"}),
        ("a\\:b\\=c d", {"a:b=c": "d"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e4\\u20ACb", {"a": "ä€b"}),
        ("a=ä", {"a": "ä"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
    ],
)
def test_properties_are_parsed_as_by_java(text: str, values: dict[str, str]) -> None:
    assert parse(text) == values


@pytest.mark.parametrize("text", ["a=\\u12", "a=\\u12G4", "\\u=b"])
def test_a_broken_unicode_escape_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfigError, match="four hexadecimal digits"):
        parse(text)
