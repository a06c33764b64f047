"""DataWorks' whole-database message on the wire, and what its operations mean."""

import msgspec

from changeling.model.operation import Operation

OPERATIONS = {
    "INSERT": Operation.INSERT,
    "UPDATE_BEFOR": Operation.UPDATE,
    "UPDATE_AFTER": Operation.UPDATE,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
    "TRUNCATE": Operation.TRUNCATE,
    "TRANSACTION_BEGIN": Operation.BEGIN,
    "TRANSACTION_END": Operation.COMMIT,
    "XACOMMIT": Operation.COMMIT,
    "MHEARTBEAT": Operation.BARRIER,
    "CREATE": Operation.DDL,
    "ALTER": Operation.DDL,
    "ERASE": Operation.DDL,
    "QUERY": Operation.DDL,
    "RENAME": Operation.DDL,
    "CINDEX": Operation.DDL,
    "DINDEX": Operation.DDL,
    "GTID": Operation.MESSAGE,
    "XAROLLBACK": Operation.MESSAGE,
}
"""Every `op` that is published; case matters, and the first half of an update is spelled as published."""

NAMES = {
    Operation.READ: "INSERT",
    Operation.INSERT: "INSERT",
    Operation.UPDATE: "UPDATE_AFTER",
    Operation.UPSERT: "UPDATE_AFTER",
    Operation.REPLACE: "UPDATE_AFTER",
    Operation.DELETE: "DELETE",
    Operation.TRUNCATE: "TRUNCATE",
    Operation.BEGIN: "TRANSACTION_BEGIN",
    Operation.COMMIT: "TRANSACTION_END",
    Operation.BARRIER: "MHEARTBEAT",
    Operation.DDL: "QUERY",
}
"""The `op` that is written where no closer one is known."""

BEFORE_HALF = "UPDATE_BEFOR"

_DDL_NAMES = (
    (("CREATE", "INDEX"), "CINDEX"),
    (("CREATE", "UNIQUE", "INDEX"), "CINDEX"),
    (("DROP", "INDEX"), "DINDEX"),
    (("DROP",), "ERASE"),
    (("CREATE",), "CREATE"),
    (("ALTER",), "ALTER"),
    (("RENAME",), "RENAME"),
)


def ddl_name(statement: str) -> str:
    """The `op` of a statement, by its first words."""
    words = tuple(statement.upper().split(None, 3)[:3])
    return next((name for start, name in _DDL_NAMES if words[: len(start)] == start), NAMES[Operation.DDL])


MESSAGE = ("schema", "payload", "version")
PAYLOAD = ("before", "after", "sequenceId", "scn", "op", "timestamp", "ddl")
TIMES = ("eventTime", "systemTime", "checkpointTime")
"""The members of a message in the order in which it is written."""


class WireColumn(msgspec.Struct, frozen=True):
    """A column as `schema.dataColumn` lists it."""

    name: str
    type: str


class WireSource(msgspec.Struct, rename="camel"):
    """Where the rows come from."""

    db_name: str | None = None
    schema_name: str | None = None
    table_name: str | None = None


class WireSchema(msgspec.Struct, rename="camel"):
    """What a message says about its table; heartbeats and marks have none."""

    data_column: list[WireColumn] | None = None
    primary_key: list[str] | None = None
    source: WireSource | None = None
