"""Which change log reads a slot: recorded on the server, so that no other log consumes its changes.

The record is a comment on the publication. Only the publication's owner may write one, and it may have another comment already:
then a second slot is the record, a physical one that retains no WAL and has the log's id in its name.
"""

import hashlib

import psycopg
from psycopg import sql

from changeling.model.errors import ChangelingError
from changeling.postgres.catalog import Connection

_COMMENTS = "SELECT pubname, coalesce(obj_description(oid, 'pg_publication'), '') FROM pg_publication ORDER BY pubname"
_MARKERS = "SELECT slot_name FROM pg_replication_slots WHERE plugin IS NULL AND starts_with(slot_name, %s) ORDER BY 1"
_EXISTS = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_READABLE = 21
"""How many letters of the slot's name are part of a marker's name, which has 63 letters at most."""


class Claim:
    """The claim of one log on one slot. An empty `reader` claims nothing."""

    def __init__(self, source: str, slot: str, publications: tuple[str, str], reader: str) -> None:
        self._source = source
        self._slot, self._publications, self._reader = slot, publications, _plain(reader)
        self._note = f"slot {slot} is read by the Changeling log "
        self._prefix = f"{slot[:_READABLE]}_{hashlib.sha256(slot.encode()).hexdigest()[:8]}_"

    def readers(self, connection: Connection) -> set[str]:
        """The logs that have claimed the slot."""
        comments = (text for _, text in self._comments(connection) if text.startswith(self._note))
        found = {_plain(text.removeprefix(self._note)) for text in comments}
        return found | {name.removeprefix(self._prefix) for name in self.markers(connection)}

    def is_held(self, connection: Connection) -> bool:
        """Whether the log has claimed the slot already."""
        return self._reader in self.readers(connection)

    def others(self, connection: Connection) -> set[str]:
        """The other logs that have claimed the slot."""
        return self.readers(connection) - {self._reader}

    def markers(self, connection: Connection) -> list[str]:
        """The slots that only mark a claim."""
        return [str(name) for (name,) in connection.execute(_MARKERS, (self._prefix,)).fetchall()]

    def check(self, connection: Connection) -> None:
        """Raises `ChangelingError` where another log reads the slot: each would miss what the other has consumed."""
        if self._reader and self.others(connection):
            raise ChangelingError(
                f"source {self._source}: the slot {self._slot} is read by another pipeline, or was by an earlier log of this one. "
                f"Choose another `slot:` for this one; or, if the other no longer exists, run {self.way_out(connection)}"
            )

    def take(self, connection: Connection, *, begun: bool) -> None:
        """Claims the slot; `begun`: the log already has changes from it.

        Raises `ChangelingError` where another log has claimed it, and where it exists though the log has never read from it.
        """
        if not self._reader:
            return
        with connection.transaction():
            connection.execute(_LOCK, (self._note,))
            self.check(connection)
            if self.is_held(connection):
                return
            if not begun and connection.execute(_EXISTS, (self._slot,)).fetchone():
                raise ChangelingError(
                    f"source {self._source}: the slot {self._slot} exists already, and this log has read nothing from it: whoever reads it would lose "
                    f"changes. Choose another `slot:`; or, if nobody reads it, run {drop_slot(self._slot)}"
                )
            if not self._comment(connection):
                self._mark(connection)

    def way_out(self, connection: Connection) -> str:
        """What to run if the log that has claimed the slot no longer exists."""
        slots = [drop_slot(name) for name in [self._slot, *self.markers(connection)]]
        noted = {name for name, text in self._comments(connection) if text.startswith(self._note)}
        # A comment is dropped with its publication; a publication without our comment may belong to somebody else.
        dropped = [*self._publications, *sorted(noted - set(self._publications))] if noted else []
        names = ", ".join(sql.Identifier(name).as_string(None) for name in dropped)
        return " ".join([*slots, *([f"DROP PUBLICATION IF EXISTS {names};"] if names else [])])

    def _comments(self, connection: Connection) -> list[tuple[str, str]]:
        return [(str(name), str(text)) for name, text in connection.execute(_COMMENTS).fetchall()]

    def _comment(self, connection: Connection) -> bool:
        """Records the claim as a comment, if the user may write one and there is none."""
        name = self._publications[0]
        if dict(self._comments(connection)).get(name) != "":
            return False
        try:
            with connection.transaction():
                connection.execute(_comment_on(name, self._note + self._reader))
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    def _mark(self, connection: Connection) -> None:
        """Records the claim as a slot."""
        try:
            connection.execute("SELECT pg_create_physical_replication_slot(%s)", (self._prefix + self._reader,))
        except (psycopg.errors.ConfigurationLimitExceeded, psycopg.errors.InsufficientPrivilege) as error:
            statement = _comment_on(self._publications[0], self._note + self._reader).as_string(None)
            raise ChangelingError(
                f"source {self._source}: cannot record that the slot {self._slot} is read by this log ({error.diag.message_primary}): raise "
                f"max_replication_slots, or let the publication's owner run {statement}"
            ) from None


def _comment_on(publication: str, text: str) -> sql.Composed:
    return sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(publication), text)


def drop_slot(name: str) -> str:
    """A statement that can be run again: it does nothing where the slot does not exist."""
    literal = sql.Literal(name).as_string(None)
    return f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {literal};"


def _plain(reader: str) -> str:
    """A log's id in letters that a slot name may have."""
    return reader.replace("-", "").lower()
