"""Merges two releases' definitions: the older one's for every version that it has, the newer one's above.

Fields are matched by their place on the wire in the last version that both releases have: untagged ones by position,
tagged ones by tag, because Kafka renames fields between releases. The older release's name is kept.
"""

from dataclasses import replace

from harness.definitions.model import NO_VERSIONS, Field, Message, Struct, Versions

KNOWN_CONFLICTS = {
    ("EndQuorumEpochRequest", 0),
    ("LeaderChangeMessage", 0),
}
"""Versions whose bytes differ between the releases; the older release's definition is used."""

REVISED_APIS = range(83, 88)
"""APIs of the state of share groups, early access in the older release: the newer release's definitions are used."""


class MergeError(Exception):
    """Two definitions can't be matched."""


def merge_all(older: dict[str, Message], newer: dict[str, Message]) -> dict[str, Message]:
    """Match requests and responses by API key, the rest by name."""
    merged = dict(older)
    names = {_identity(message): name for name, message in older.items()}
    for message in newer.values():
        name = names.get(_identity(message))
        if name is None or message.api_key in REVISED_APIS:
            merged.pop(name or "", None)
            merged[message.name] = message
        else:
            merged[name] = merge(older[name], message)
    return merged


def _identity(message: Message) -> tuple[str, object]:
    return message.kind, message.name if message.api_key is None else message.api_key


def merge(older: Message, newer: Message) -> Message:
    """The older definition with the versions added that only the newer one has."""
    above = Versions(older.versions.high + 1, newer.versions.high)
    if not above:
        is_stored = older.api_key is None and older.versions == newer.versions
        return newer if is_stored else older  # tagged fields are added to records without a new version
    return _Merge(older, newer, above).run()


class _Merge:
    """One run over two definitions."""

    def __init__(self, older: Message, newer: Message, above: Versions) -> None:
        self.older = older
        self.newer = newer
        self.above = above
        self.last = older.versions.high
        self.renamed: dict[str, str] = {newer.name: older.name}
        self.structs: dict[str, Struct] = {}

    def run(self) -> Message:
        older, newer = self.older, self.newer
        merged = Message(
            name=older.name,
            kind=older.kind,
            api_key=older.api_key,
            versions=older.versions.union(self.above),
            flexible=older.flexible.union(newer.flexible.intersect(self.above)),
            structs=self.structs,
        )
        self.struct(older.name, newer.name)
        for name, struct in older.structs.items():
            self.structs.setdefault(name, struct)
        return merged

    def struct(self, old_name: str, new_name: str) -> None:
        """Merge one pair of structs and the pairs below it."""
        if old_name in self.structs:
            return
        old, new = self.older.structs[old_name], self.newer.structs[new_name]
        pairs = self._pairs(old, new)
        merged = self.structs[old_name] = Struct(old_name, [])
        position = {id(entry): entry for entry in old.fields}
        following: list[Field] = []
        for entry in new.fields:
            partner = pairs.get(id(entry))
            if partner is None:
                if added := self._added(entry):
                    following.append(added)
                continue
            while id(partner) in position and (head := next(iter(position.values()))) is not partner:
                if id(head) in {id(other) for other in pairs.values()}:
                    break
                merged.fields.append(position.pop(id(head)))
            merged.fields.extend(following)
            following.clear()
            position.pop(id(partner), None)
            merged.fields.append(self._joined(partner, entry))
        merged.fields.extend(following)
        merged.fields.extend(position.values())

    def _pairs(self, old: Struct, new: Struct) -> dict[int, Field]:
        """The older field for each newer one, by the newer one's identity."""
        last = self.last
        pairs: dict[int, Field] = {}
        tagged = {entry.tag: entry for entry in old.fields if last in entry.tagged}
        plain = [entry for entry in old.fields if last in entry.versions and last not in entry.tagged]
        new_plain = [entry for entry in new.fields if last in entry.versions and last not in entry.tagged]
        if len(plain) != len(new_plain) and self.newer.versions.low <= last:
            raise MergeError(
                f"{old.name}: {len(plain)} fields in version {last}, {len(new_plain)} in the newer release"
            )
        for mine, theirs in zip(plain, new_plain, strict=False):
            if mine.is_struct != theirs.is_struct or (not mine.is_struct and mine.type != theirs.type):
                raise MergeError(f"{old.name}: {mine.name} is {mine.type}, in the newer release {theirs.type}")
            pairs[id(theirs)] = mine
        by_name = {entry.name: entry for entry in old.fields}
        for entry in new.fields:
            if id(entry) in pairs:
                continue
            partner = tagged.get(entry.tag) if last in entry.tagged else by_name.get(entry.name)
            if partner is not None and (partner.type == entry.type or partner.is_struct == entry.is_struct is True):
                pairs[id(entry)] = partner
        return pairs

    def _added(self, entry: Field) -> Field | None:
        """A field that only the newer release has."""
        versions = entry.versions.intersect(self.above)
        if not versions:
            return None
        if entry.is_struct:
            self._added_struct(entry.element)
        return _restricted(entry, versions)

    def _added_struct(self, name: str) -> None:
        if name not in self.structs and name not in self.older.structs:
            self.structs[name] = Struct(name, [])
            fields = [self._added(entry) for entry in self.newer.structs[name].fields]
            self.structs[name].fields.extend(entry for entry in fields if entry)

    def _joined(self, old: Field, new: Field) -> Field:
        if old.is_struct:
            self.struct(old.element, new.element)
        above = self.above
        # of versions that lack the field the newer release alone says whether it may be set in them
        ignorable = old.ignorable or (new.ignorable and new.versions.high < above.high)
        if not new.versions.intersect(above):
            return replace(old, ignorable=ignorable)
        return Field(
            name=old.name,
            type=old.type,
            versions=old.versions.union(new.versions.intersect(above)),
            nullable=old.nullable.union(new.nullable.intersect(above)),
            tagged=old.tagged.union(new.tagged.intersect(above)),
            tag=old.tag if old.tag is not None else new.tag,
            default=old.default,
            ignorable=ignorable,
            never_flexible=old.never_flexible,
            entity=old.entity or new.entity,
        )


def _restricted(entry: Field, versions: Versions) -> Field:
    return Field(
        name=entry.name,
        type=entry.type,
        versions=versions,
        nullable=entry.nullable.intersect(versions) if entry.nullable else NO_VERSIONS,
        tagged=entry.tagged.intersect(versions) if entry.tagged else NO_VERSIONS,
        tag=entry.tag,
        default=entry.default,
        ignorable=entry.ignorable,
        never_flexible=entry.never_flexible,
        entity=entry.entity,
    )
