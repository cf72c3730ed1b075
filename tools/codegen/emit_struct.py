"""Emits one struct's class: its constructor, `read` and `write`, straight-line code for all its versions."""

import re
from collections.abc import Callable, Iterator
from itertools import groupby

from harness.definitions.model import FIXED_SIZE_LETTERS, Struct, Versions
from harness.definitions.names import local
from tools.codegen.field_texts import text_of
from tools.codegen.types import FieldCode

Lines = list[str]


def indent(lines: Lines, by: int = 1) -> Lines:
    """Return the lines, indented."""
    return [f"{'    ' * by}{line}" for line in lines]


class StructCode:
    """Emits one class; ``versions`` are those that the struct is used in."""

    def __init__(
        self, struct: Struct, name: str, versions: Versions, flexible: Versions, class_names: dict[str, str]
    ) -> None:
        self.struct = struct
        self.name = name
        self.versions = versions
        self.flexible = flexible.intersect(versions)
        fields = [entry for entry in struct.fields if entry.versions.intersect(versions)]
        self.fields = [FieldCode(entry, class_names) for entry in fields]
        self.tagged = sorted((code for code in self.fields if code.field.tagged), key=lambda code: code.field.tag or 0)
        self.layouts: set[str] = set()  # struct layouts used, by name
        self.unused: set[str] = set()  # the linter's rules about arguments that a class does not use

    # the class

    def lines(self, head: Lines, *, top: bool) -> Lines:
        """The class's source; ``head`` comes after its slots."""
        slots = [code.attribute for code in self.fields]
        if self.flexible:
            slots.append("unknown_tagged_fields")
        body = [
            *head,
            f"__slots__: tuple[str, ...] = ({', '.join(map(repr, slots))}{',' if len(slots) == 1 else ''})",
            f"WEIGHT = {1 + len(slots)}",
            "",
            *self._constructor(),
            "",
            *self._read(top=top),
            "",
            *self._write(top=top),
        ]
        return [f"class {self.name}(Message):", *indent(body)]

    def _constructor(self) -> Lines:
        parameters = [f"{code.parameter},  # {self._text(code)}" for code in self.fields]
        assignments = [code.assignment for code in self.fields]
        if self.flexible:
            parameters.append("unknown_tagged_fields: TaggedFields = None,")
            assignments.append("self.unknown_tagged_fields = unknown_tagged_fields")
        if not parameters:
            return ["def __init__(self) -> None:", '    """No fields."""']
        return ["def __init__(", *indent(["self,", *parameters]), ") -> None:", *indent(assignments)]

    def _text(self, code: FieldCode) -> str:
        """The meaning of a field, after the versions that have it unless all do."""
        text = text_of(self.struct, code.attribute)
        low, high = code.field.versions.intersect(self.versions)
        if (low, high) == self.versions:
            return text
        since = f"v{low}+" if high == self.versions.high else f"v{low}" if low == high else f"v{low}–v{high}"
        return f"{since}: {text}"

    def _guard(self, subject: str) -> Lines:
        low, high = self.versions
        condition = f"version != {low}" if low == high else f"not {low} <= version <= {high}"
        return [f"if {condition}:", f"    raise unsupported_version({subject}, version)"]

    # runs of fields that are handled together

    def _runs(self) -> Iterator[list[FieldCode]]:
        """Untagged fields in order, adjacent ones of fixed size together."""
        plain = [code for code in self.fields if self._body_versions(code)]
        for fixed, run in groupby(plain, key=lambda code: code.letter is not None):
            if fixed:
                yield list(run)
            else:
                for code in run:
                    yield [code]

    @staticmethod
    def _is_plain(code: FieldCode, version: int) -> bool:
        return version in code.field.versions and version not in code.field.tagged

    def _body_versions(self, code: FieldCode) -> list[int]:
        return [
            version for version in range(self.versions.low, self.versions.high + 1) if self._is_plain(code, version)
        ]

    def _is_flexible(self, code: FieldCode, version: int) -> bool:
        return version in self.flexible and not code.field.never_flexible

    def _segments(self, state: Callable[[int], object]) -> list[tuple[int, int]]:
        """The version ranges, newest first, in which ``state`` stays the same."""
        ranges: list[tuple[int, int]] = []
        for _, group in groupby(range(self.versions.low, self.versions.high + 1), key=state):
            members = list(group)
            ranges.insert(0, (members[0], members[-1]))
        return ranges

    def _branches(self, state: Callable[[int], object], code_for: Callable[[int], Lines]) -> Lines:
        """`if version >= …` down to the oldest versions, with ``code_for`` a version of each range in the branches."""
        segments = [(low, code_for(low)) for low, _ in self._segments(state)]
        if len(segments) == 1:
            return segments[0][1]
        if len(segments) > 1 and not segments[-1][1] and len(segments) == 2:
            return [f"if version >= {segments[0][0]}:", *indent(segments[0][1])]
        lines: Lines = []
        for index, (low, branch) in enumerate(segments):
            if index == len(segments) - 1:
                if branch:
                    lines += ["else:", *indent(branch)]
            else:
                keyword = "if" if index == 0 else "elif"
                lines += [f"{keyword} version >= {low}:", *indent(branch or ["pass"])]
        if not segments[0][1] and len(segments) == 2:
            return [f"if version < {segments[0][0]}:", *indent(segments[1][1])]
        return lines

    def _layout(self, codes: list[FieldCode]) -> str:
        name = "_".join(code.field.type.upper() for code in codes)
        self.layouts.add(name)
        return name

    # read

    def _read(self, *, top: bool) -> Lines:
        lines = self._guard("cls") if top else []
        for run in self._runs():
            lines += self._read_fixed(run) if run[0].letter else self._read_one(run[0])
        lines += self._read_tags()
        arguments = [local(code.attribute) for code in self.fields]
        if self.flexible:
            arguments.append("unknown")
        if not any(re.search(r"\bversion\b", line) for line in lines):
            self.unused.add("ARG003")
        return [
            "@classmethod",
            "def read(cls, reader: Reader, version: int) -> Self:",
            *indent(lines),
            f"    return cls({', '.join(arguments)})",
        ]

    def _read_fixed(self, run: list[FieldCode]) -> Lines:
        def code_for(version: int) -> Lines:
            here = [code for code in run if self._is_plain(code, version)]
            lines = [f"{local(code.attribute)} = {code.default}" for code in run if not self._is_plain(code, version)]
            if len(here) == 1:
                lines.insert(0, f"{local(here[0].attribute)} = reader.read_{here[0].field.type}()")
            elif here:
                targets = ", ".join(local(code.attribute) for code in here)
                lines.insert(0, f"{targets} = reader.unpack({self._layout(here)})")
            return lines

        return self._branches(lambda version: [self._is_plain(code, version) for code in run], code_for)

    def _read_one(self, code: FieldCode) -> Lines:
        name = local(code.attribute)

        def state(version: int) -> tuple[bool, bool, bool]:
            if not self._is_plain(code, version):
                return False, False, False
            return True, self._is_flexible(code, version), version in code.field.nullable

        def value(version: int) -> str:
            plain, flexible, nullable = state(version)
            return code.read(flexible=flexible, nullable=nullable) if plain else code.default

        segments = self._segments(state)
        values = [value(low) for low, _ in segments]
        if len(set(values)) == 1:
            return [f"{name} = {values[0]}"]
        choice = f"{values[0]} if version >= {segments[0][0]} else {values[-1]}"
        declaration = f"{name}: {code.annotation}"
        if len(values) == 2 and " if " not in values[0] + values[1] and len(choice) + len(declaration) < 100:
            return [f"{declaration} = {choice}" if values[1] in ("[]", "None") else f"{name} = {choice}"]
        return [declaration, *self._branches(state, lambda version: [f"{name} = {value(version)}"])]

    def _read_tags(self) -> Lines:
        if not self.flexible:
            return []
        if not self.tagged:
            section = ["unknown = reader.read_unknown_tagged_fields()"]
            if self.flexible == self.versions:
                return section
            return [f"unknown = reader.read_unknown_tagged_fields() if version >= {self.flexible.low} else None"]
        lines = [
            f"{local(code.attribute)}: {code.annotation} = {code.unread}"
            for code in self.tagged
            if not self._body_versions(code)
        ]
        lines.append("unknown: TaggedFields = None")
        loop = [
            "tag = -1",
            "for _ in range(reader.read_tag_count()):",
            "    tag, end = reader.read_tag_after(tag)",
        ]
        for index, code in enumerate(self.tagged):
            low = code.field.tagged.low
            since = f" and version >= {low}" if low > self.flexible.low else ""
            loop.append(f"    {'elif' if index else 'if'} tag == {code.field.tag}{since}:")
            nullable = bool(code.field.nullable)
            loop.append(f"        {local(code.attribute)} = {code.read(flexible=True, nullable=nullable)}")
        loop += [
            "    else:",
            "        unknown = reader.read_unknown_tag(tag, end, unknown)",
            "    reader.expect_tag_end(tag, end)",
        ]
        return lines + self._if_flexible(loop)

    def _if_flexible(self, lines: Lines) -> Lines:
        if self.flexible == self.versions:
            return lines
        return [f"if version >= {self.flexible.low}:", *indent(lines)]

    # write

    def _write(self, *, top: bool) -> Lines:
        lines = self._guard("type(self)") if top else []
        for run in self._runs():
            lines += self._write_fixed(run) if run[0].letter else self._write_one(run[0])
        lines += self._write_tags()
        if not any(re.search(r"\bversion\b", line) for line in lines):
            self.unused.add("ARG002")
        return ["def write(self, writer: Writer, version: int) -> None:", *indent(lines or ['"""No fields."""'])]

    @staticmethod
    def _refuse(code: FieldCode) -> Lines:
        """Emit the check of a field that the version doesn't have."""
        if code.field.ignorable:
            return []
        condition = code.is_set(f"self.{code.attribute}")
        return [f"if {condition}:", f'    raise unsupported_field(self, "{code.attribute}", version)']

    def _write_fixed(self, run: list[FieldCode]) -> Lines:
        def code_for(version: int) -> Lines:
            here = [code for code in run if self._is_plain(code, version)]
            lines: Lines = []
            if here:
                values = ", ".join(f"self.{code.attribute}" for code in here)
                lines.append(f"writer.buffer += {self._layout(here)}.pack({values})")
            for code in run:
                if version not in code.field.versions:
                    lines += self._refuse(code)
            return lines

        return self._branches(lambda version: [self._is_plain(code, version) for code in run], code_for)

    def _write_one(self, code: FieldCode) -> Lines:
        def state(version: int) -> tuple[bool, bool, bool, bool]:
            if not self._is_plain(code, version):
                return False, version in code.field.tagged, False, False
            return True, False, self._is_flexible(code, version), version in code.field.nullable

        def code_for(version: int) -> Lines:
            plain, tagged, flexible, nullable = state(version)
            if plain:
                return self._write_value(code, flexible=flexible, nullable=nullable)
            return [] if tagged else self._refuse(code)

        return self._branches(state, code_for)

    def _write_value(self, code: FieldCode, *, flexible: bool, nullable: bool) -> Lines:
        value = f"self.{code.attribute}"
        statements = code.write(value, "writer", flexible=flexible, nullable=nullable)
        simple = not code.field.is_array and not code.field.is_struct
        if not code.optional or (simple and nullable) or code.field.type == "records":
            return statements
        if not nullable:
            return [
                f"if {value} is None:",
                f'    raise unsupported_field(self, "{code.attribute}", version)',
                *statements,
            ]
        if code.field.is_array:
            null = f"writer.write_{'compact_' if flexible else ''}count(-1)"
        else:
            null, statements = "writer.buffer.append(0xFF)", ["writer.buffer.append(1)", *statements]
        return [f"if {value} is None:", f"    {null}", "else:", *indent(statements)]

    def _write_tags(self) -> Lines:
        lines = self._refuse_tags()
        if not self.flexible:
            return lines
        if self.tagged:
            section = ["tagged: list[tuple[int, bytes]] = []"]
            for code in self.tagged:
                section += self._write_tag(code)
            section.append("writer.write_tagged_fields(tagged, self.unknown_tagged_fields)")
        else:
            section = ["writer.write_unknown_tagged_fields(self.unknown_tagged_fields)"]
        section = self._if_flexible(section)
        if self.flexible != self.versions:
            section += ["elif self.unknown_tagged_fields:", "    raise unsupported_tagged_fields(self, version)"]
        return lines + section

    def _refuse_tags(self) -> Lines:
        """Emit the checks of tagged fields that are set in a version that doesn't have them."""
        lines: Lines = []
        for code in self.tagged:
            low = code.field.tagged.low
            if code.field.ignorable or low <= self.versions.low or self._body_versions(code):
                continue
            condition = code.is_set(f"self.{code.attribute}")
            lines.append(f"if version < {low} and {condition}:")
            lines.append(f'    raise unsupported_field(self, "{code.attribute}", version)')
        return lines

    def _write_tag(self, code: FieldCode) -> Lines:
        field = code.field
        value = f"self.{code.attribute}"
        conditions = [code.is_set(value)] if not code.sends_null else []
        if code.field.absent_is_none and (code.sends_null or not field.nullable):
            conditions.append(f"{value} != {code.class_name}()")
        if field.tagged.low > self.flexible.low:
            conditions.insert(0, f"version >= {field.tagged.low}")
        statements = code.write(value, "field", flexible=True, nullable=bool(field.nullable))
        if code.letter:
            self.layouts.add(field.type.upper())
        if code.field.absent_is_none and field.nullable:
            statements.insert(0, "field.buffer.append(1)")
        if code.sends_null:
            statements = [f"if {value} is None:", "    field.buffer.append(0)", "else:", *indent(statements)]
        if field.is_array and field.nullable and code.default != "None":
            null = [f"if {value} is None:", "    field.write_compact_count(-1)", "else:"]
            statements = [*null, *indent(statements)]
        return [
            f"if {' and '.join(conditions)}:",
            *indent(["field = Writer()", *statements, f"tagged.append(({field.tag}, field.getvalue()))"]),
        ]


def layout_format(name: str) -> str:
    """struct's format for a layout's name: `INT16_INT32` → `>hi`."""
    return ">" + "".join(FIXED_SIZE_LETTERS[part.lower()] for part in name.split("_"))
