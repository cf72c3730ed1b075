"""For each field: its Python type, its default, and the expressions that read and write it."""

from harness.definitions.model import FIXED_SIZE_LETTERS, Field
from harness.definitions.names import snake_case

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
    "uuid": "UUID",
}
_ZEROES = {"bool": "False", "float64": "0.0", "string": '""', "bytes": 'b""', "records": "None", "uuid": "ZERO_UUID"}
_SIZES = {"b": 1, "h": 2, "H": 2, "i": 4, "q": 8}


class FieldCode:
    """A field with the class names of its struct's module."""

    def __init__(self, field: Field, class_names: dict[str, str]) -> None:
        self.field = field
        self.attribute = snake_case(field.name)
        self.class_name = class_names.get(field.element, field.element)
        self.letter = None if field.is_array else FIXED_SIZE_LETTERS.get(field.type)

    @property
    def sends_null(self) -> bool:
        """Whether null is sent and a default instance isn't: for a tagged struct whose default is not null."""
        field = self.field
        return field.absent_is_none and bool(field.nullable and field.tagged) and field.default != "null"

    @property
    def unread(self) -> str:
        """The value of a tagged field that wasn't sent, as an expression."""
        return f"{self.class_name}()" if self.sends_null else self.default

    @property
    def optional(self) -> bool:
        """Whether None is a value of the attribute."""
        return bool(self.field.nullable) or self.field.type == "records" or self.field.absent_is_none

    @property
    def annotation(self) -> str:
        """The attribute's type."""
        plain = self.class_name if self.field.is_struct else _PYTHON_TYPES.get(self.field.element, "int")
        if self.field.is_array:
            plain = f"list[{plain}]"
        return f"{plain} | None" if self.optional else plain

    @property
    def default(self) -> str:
        """The value of an attribute that wasn't read, as an expression."""
        field = self.field
        if field.default == "null" or field.absent_is_none:
            return "None"
        if field.is_array:
            return "[]"
        if field.is_struct:
            return f"{self.class_name}()"
        return self._plain_default()

    def _plain_default(self) -> str:
        field = self.field
        if field.default is None:
            return _ZEROES.get(field.type, "0")
        if field.type == "bool":
            return field.default.capitalize()
        if field.type == "string":
            return f'"{field.default}"'
        return str(int(field.default, 0))

    @property
    def parameter(self) -> str:
        """The constructor's parameter."""
        if self.default == "[]":
            return f"{self.attribute}: {self.annotation} = EMPTY"
        if self.default.endswith("()"):
            return f"{self.attribute}: {self.annotation} | None = None"
        return f"{self.attribute}: {self.annotation} = {self.default}"

    @property
    def assignment(self) -> str:
        """The constructor's assignment."""
        name = self.attribute
        if self.default == "[]":
            return f"self.{name} = [] if {name} is EMPTY else {name}"
        if self.default.endswith("()"):
            return f"self.{name} = {self.default} if {name} is None else {name}"
        return f"self.{name} = {name}"

    def is_set(self, value: str) -> str:
        """The condition that a value differs from the default."""
        default = self.default
        if default == "None":
            return f"{value} is not None"
        if default == "False" or (default in ("[]", '""', 'b""', "0") and not self.optional):
            return value
        return f"not {value}" if default == "True" else f"{value} != {default}"

    def read(self, *, flexible: bool, nullable: bool) -> str:
        """The expression that reads the value."""
        field = self.field
        prefix = "compact_" if flexible else ""
        null = "nullable_" if nullable else ""
        if field.is_array and nullable:
            elements = self._read_array("count", flexible=flexible)
            return f"None if (count := reader.read_{prefix}{null}count()) < 0 else {elements}"
        if field.is_array:
            return self._read_array(f"reader.read_{prefix}{null}count()", flexible=flexible)
        if field.is_struct and nullable:
            is_null = "<= 0" if self.sends_null else "< 0"
            return f"None if reader.read_int8() {is_null} else {self.class_name}.read(reader, version)"
        if field.is_struct:
            return f"{self.class_name}.read(reader, version)"
        if field.type in ("string", "bytes", "records"):
            return f"reader.read_{prefix}{null}{field.type}()"
        return f"reader.read_{field.type}()"

    def _read_array(self, count: str, *, flexible: bool) -> str:
        field = self.field
        if field.is_struct:
            return f"reader.read_structs({self.class_name}, {count}, version)"
        if field.element == "string":
            return f"reader.read_{'compact_' if flexible else ''}strings({count})"
        if field.element == "uuid":
            return f"reader.read_uuids({count})"
        letter = FIXED_SIZE_LETTERS[field.element]
        return f'reader.read_numbers("{letter}", {_SIZES[letter]}, {count})'

    def write(self, value: str, writer: str, *, flexible: bool, nullable: bool) -> list[str]:
        """The statements that write a value; arrays and structs must be known not to be null."""
        field = self.field
        prefix = "compact_" if flexible else ""
        if field.is_array:
            return [
                f"{writer}.write_{prefix}count(len({value}))",
                self._write_elements(value, writer, flexible=flexible),
            ]
        if field.is_struct:
            return [f"{value}.write({writer}, version)"]
        if field.type == "records":
            return [f"{writer}.write_{prefix}records({value})"]
        if field.type in ("string", "bytes"):
            return [f"{writer}.write_{prefix}{'nullable_' if nullable else ''}{field.type}({value})"]
        if self.letter:
            return [f"{writer}.buffer += {field.type.upper()}.pack({value})"]
        return [f"{writer}.write_{field.type}({value})"]

    def _write_elements(self, value: str, writer: str, *, flexible: bool) -> str:
        field = self.field
        if field.is_struct:
            return f"{writer}.write_structs({value}, version)"
        if field.element == "string":
            return f"{writer}.write_{'compact_' if flexible else ''}strings({value})"
        if field.element == "uuid":
            return f"{writer}.write_uuids({value})"
        return f'{writer}.write_numbers("{FIXED_SIZE_LETTERS[field.element]}", {value})'
