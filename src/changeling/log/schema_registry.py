"""The schema registry: every schema that records carried, that was declared or inferred, by number; numbers only grow.

Which version holds is decided by position. A late record with an older schema adds that version behind the newer one, and
alters nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from changeling.log.inferred_schemas import advice, inferred
from changeling.log.schema_evolution import Difference, difference, shown
from changeling.log.schema_ids import Known
from changeling.log.task_result import SeenSchema, TableSample
from changeling.model.errors import ChangelingError
from changeling.model.table import TableName, TableSchema, schema_from_json

Policy = Literal["evolve", "ignore", "fail"]
_START = ""
"""Before every position."""
Status = Literal["accepted", "ignored", "aside"]
"""As the table `schemas` stores it. `aside`: the version is incompatible with the rows of its table, and its records are rejected."""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of one table's schema."""

    id: int
    source: str
    table: TableName
    version: int
    position: str | None
    """From where on it holds; None from the start."""
    origin: Literal["declared", "carried", "inferred"]
    status: Status
    schema: TableSchema
    note: str | None = None
    """What it changes, for people; for an incompatible version, why."""

    @property
    def incompatible(self) -> bool:
        """Whether it does not fit the rows of its table, so that its records are rejected."""
        return self.status == "aside"


class CarriedSchemas(msgspec.Struct, frozen=True, kw_only=True):
    """How the schemas that come with the records of a source are to be taken."""

    declared: tuple[TableSchema, ...] = ()
    """The schemas that the user declared for any table: they hold from the start."""
    by_number: bool = False
    """The numbers that records give to schemas are those of the registry, and not the source's own."""
    with_all_rows: bool = False
    """The source sends the rows of a table again when it was altered: versions are accepted that do not fit the rows before."""


class _Candidate(msgspec.Struct, frozen=True):
    """A schema that may become a version."""

    source: str
    table: TableName
    schema: TableSchema
    origin: Literal["declared", "carried", "inferred"]
    position: str | None = None
    number: int | None = None
    """The version's number, where the user gave one."""


class Registry:
    """All versions of a pipeline's tables."""

    def __init__(self, versions: Iterable[Version] = ()) -> None:
        self.versions = sorted(versions, key=lambda version: version.id)

    @staticmethod
    def from_rows(rows: Iterable[dict[str, Any]]) -> "Registry":
        """The registry as the table `schemas` has it."""
        return Registry(
            Version(
                id=row["id"],
                source=row["source"],
                table=TableName(**row["table"]),
                version=row["version"],
                position=row["position"],
                origin=row["origin"],
                status=row["status"],
                schema=schema_from_json(row["schema"]),
                note=row["note"],
            )
            for row in rows
        )

    def of(self, source: str, table: TableName) -> list[Version]:
        """The declared and carried versions of a table, by position; those of one position by number."""
        found = [
            version
            for version in self.versions
            if (version.source, version.table) == (source, table) and version.origin != "inferred"
        ]
        return sorted(found, key=lambda version: (version.position or _START, version.id))

    def by_number(self) -> tuple[TableSchema, ...]:
        """Every declared or carried schema, with its table and its number, for records that carry only a number."""
        return tuple(
            msgspec.structs.replace(version.schema, id=version.id, table=version.table)
            for version in self.versions
            if version.origin != "inferred"
        )

    def known(self, source: str, seen: Sequence[SeenSchema] = (), *, by_number: bool = False) -> Known:
        """The number of each schema text as records of this source carry it, or why they are rejected.

        Spellings that records may use are foreseen; others are looked up where they were `seen`. The numbers that records give
        to schemas are those of this registry (`by_number`), or the source's own, which mean nothing here.
        """
        found: Known = {}
        plain: dict[tuple[TableName, TableSchema], int | str] = {}
        for version in self.versions:
            if version.source != source or version.origin == "inferred":
                continue
            answer = _answer(version)
            plain[version.table, version.schema] = answer
            found |= dict.fromkeys(((version.table, text) for text in _spellings(version)), answer)
        for one in seen:
            schema = schema_from_json(one.schema)
            numbered = self._numbered(source, one.table, schema, by_number)
            if numbered is not None:
                found[one.table, one.schema] = _answer(numbered)
            elif (one.table, _plain(schema)) in plain:
                found[one.table, one.schema] = plain[one.table, _plain(schema)]
        return found

    def _numbered(self, source: str, table: TableName, schema: TableSchema, by_number: bool) -> Version | None:
        """The version of a table that a record named by its number, or that a rule numbered.

        The number may be that of another table's version: of a rule for several tables or sources, too. That says which columns
        the record has; its own table gets a version of its own.
        """
        own = (known for known in self.of(source, table) if known.id == schema.id)
        meant = (known for known in own if by_number or known.origin == "declared")
        return next((known for known in meant if known.schema == _plain(schema)), None)

    def register_declared(self, source: str, table: TableName, schema: TableSchema, policy: Policy) -> list[Version]:
        """Registers what the user declares; new versions only. A number that the user gives must be a new one."""
        plain = _plain(schema)
        for version in self.versions:
            if (version.table, version.schema, version.origin) != (table, plain, "declared"):
                continue
            # A number is that of one version, whichever sources the rule holds for.
            if version.id == schema.id or (schema.id is None and version.source == source):
                return []
        taken = next((version for version in self.versions if version.id == schema.id), None)
        if schema.id is not None and taken is not None:
            raise ChangelingError(
                f"table {table}: the schema id {schema.id} is that of {taken.table}, version {taken.version}, already"
            )
        return [self._add(_Candidate(source, table, plain, "declared", number=schema.id), policy)]

    def register_carried(
        self,
        source: str,
        seen: Sequence[SeenSchema],
        policy: Callable[[TableName], Policy],
        furthest: Callable[[Version], str | None],
        carried: CarriedSchemas,
    ) -> list[Version]:
        """Registers schemas that came with records; new versions only, in the order of their positions.

        `furthest` gives the last position in the log of a version's changes. Raises `ChangelingError` where the policy is to
        fail: then none is registered.
        """
        added: list[Version] = []
        given = {_plain(schema) for schema in carried.declared}
        for one in sorted(seen, key=lambda one: one.first):
            schema = schema_from_json(one.schema)
            plain = _plain(schema)
            chosen = policy(one.table)
            numbered = self._numbered(source, one.table, schema, carried.by_number) is not None
            if numbered or not self._is_new(source, one, plain, seen, furthest, chosen):
                continue
            # Where it is known, it holds again: from here on, whoever named it first.
            is_known = any(version.schema == plain for version in self.of(source, one.table))
            if plain in given and not is_known:
                candidate = _Candidate(source, one.table, plain, "declared")
            else:
                candidate = _Candidate(source, one.table, plain, "carried", one.first)
            try:
                added.append(self._add(candidate, chosen, with_all_rows=carried.with_all_rows))
            except ChangelingError:
                self.forget(added)
                raise
        return added

    def reinstate(self, version: Version, position: str) -> Version:
        """Registers that a version holds again from a position on."""
        candidate = _Candidate(version.source, version.table, version.schema, "carried", position)
        return self._add(candidate, "evolve", with_all_rows=True)

    def replace(self, other: "Registry") -> None:
        """Replaces all versions by those of another registry: of one that was read again, or was just stored."""
        self.versions = other.versions

    def forget(self, versions: Iterable[Version]) -> None:
        """Removes versions that could not be stored: they must not be assigned to changes."""
        gone = {version.id for version in versions}
        self.versions = [version for version in self.versions if version.id not in gone]

    def register_sampled(self, source: str, samples: Iterable[TableSample]) -> list[Version]:
        """Registers what samples show of tables without a declared schema. A later version only ever widens."""
        undeclared = [sample for sample in samples if not self.of(source, sample.table)]
        return [version for sample in undeclared for version in self.register_undeclared(source, sample)]

    def register_undeclared(self, source: str, sample: TableSample) -> list[Version]:
        """Registers columns that values have and no schema declares, as a new version where any is new or wider."""
        before = self.undeclared(source, sample.table)
        schema = inferred(sample, before)
        if schema == before:
            return []
        changes = None if before is None else difference(before, schema)
        parts = [] if changes in (None, Difference()) else [str(changes)]
        note = "; ".join([*parts, *advice(sample.table, schema, before)]) or None
        return [self._put(_Candidate(source, sample.table, schema, "inferred"), "accepted", note)]

    def undeclared(self, source: str, table: TableName) -> TableSchema | None:
        """The columns of a table that values have and no schema declares, as far as they are known."""
        found = [
            version.schema
            for version in self.versions
            if (version.source, version.table, version.origin) == (source, table, "inferred")
        ]
        return found[-1] if found else None

    def _is_new(
        self,
        source: str,
        one: SeenSchema,
        plain: TableSchema,
        batch: Sequence[SeenSchema],
        furthest: Callable[[Version], str | None],
        policy: Policy,
    ) -> bool:
        """Whether a schema that records carry becomes a version.

        - It was never registered: yes.
        - All versions with it are incompatible: only where the policy is to ignore, which takes it otherwise now.
        - It is the newest version, or no newer one is compatible, or its positions are places of arrival: no.
        - It is older than the newest one: yes where it returns after everything else, no where it is only late.
        """
        versions = self.of(source, one.table)
        same = [version for version in versions if version.schema == plain]
        if not same or (policy == "ignore" and all(version.incompatible for version in same)):
            return True
        if all(version.incompatible for version in same):
            return False
        newest = next((known for known in reversed(versions) if not known.incompatible), versions[-1])
        if newest.schema == plain or newest.incompatible or one.arrived or one.first <= (newest.position or _START):
            return False
        others = [other.last for other in batch if other.table == one.table and other.schema != one.schema]
        bound = max([furthest(newest) or _START, *others])
        # An older schema that returns after everything else holds again; one that is interleaved is only late.
        return one.first > bound

    def _add(self, new: _Candidate, policy: Policy, *, with_all_rows: bool = False) -> Version:
        before = [version for version in self.of(new.source, new.table) if version.status == "accepted"]
        earlier = [version for version in before if (version.position or _START) <= (new.position or _START)]
        if not earlier:
            return self._put(new, "accepted")
        found = difference(earlier[-1].schema, new.schema)
        both = f"\n  version {earlier[-1].version}: {shown(earlier[-1].schema)}\n  new:       {shown(new.schema)}"
        if policy == "fail":
            raise ChangelingError(
                f"source {new.source}: the schema of {new.table} changed ({found}), and its policy is to fail:{both}\n"
                "Set `schema: evolve` for this table to take the new version, or `schema: ignore` to keep the old one."
            )
        if policy == "ignore":
            return self._put(new, "ignored", str(found))
        if found.conflicts and not with_all_rows:
            conflicts = "; ".join(found.conflicts)
            note = f"the schema of {new.table} changed in a way that does not fit its rows ({conflicts}):{both}"
            return self._put(new, "aside", note)
        return self._put(new, "accepted", str(found))

    def _put(self, new: _Candidate, status: Status, note: str | None = None) -> Version:
        version = Version(
            id=self._next() if new.number is None else new.number,
            source=new.source,
            table=new.table,
            version=1 + sum((known.source, known.table) == (new.source, new.table) for known in self.versions),
            position=new.position,
            origin=new.origin,
            status=status,
            schema=new.schema,
            note=note,
        )
        self.versions.append(version)
        return version

    def _next(self) -> int:
        return 1 + max((version.id for version in self.versions), default=0)


def _answer(version: Version) -> int | str:
    """The number of a version, or why its records are rejected."""
    return version.note or "its schema does not fit the rows of its table" if version.incompatible else version.id


def _plain(schema: TableSchema) -> TableSchema:
    """The columns and the key alone."""
    return TableSchema(schema.columns, schema.key)


def _spellings(version: Version) -> list[str]:
    """The texts by which a record may carry this version: with its table or without, with its number or without."""
    return [
        msgspec.structs.replace(version.schema, table=table, id=number).to_json()
        for table in (None, version.table)
        for number in (None, version.id)
    ]
