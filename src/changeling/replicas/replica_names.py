"""The names of replicas: they depend on which tables exist, never on which of them came first."""

from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from changeling.replicas.replica_reader import Identity

_SUFFIXES = {"history": "__history"}
_CHANGES_SUFFIX = "__changes"
"""The suffix of a list of changes, where the rows of its table have a replica as well."""


def replica_names(identities: Iterable[Identity]) -> dict[Identity, str]:
    """A name for each replica, all different: schema and table, with the catalog in front, or even the source, if need be.

    A name that would suit several of them is given to none: each takes the next longer one that is its own. So it never
    matters which came first, though one that comes later may make the names of others longer.
    """
    known = set(identities)
    choices = {identity: _choices(identity, known) for identity in known}
    wanted = Counter(name for names in choices.values() for name in names)
    return {
        identity: next((name for name in names if wanted[name] == 1), names[-1]) for identity, names in choices.items()
    }


def _choices(identity: Identity, known: set[Identity]) -> list[str]:
    """The names that a replica may have, the best one first; no other replica has the last one among its own."""
    table, suffix = identity.table, _SUFFIXES.get(identity.kind, "")
    if identity.kind == "changes" and Identity(identity.source, table) in known:
        suffix = _CHANGES_SUFFIX
    parts = [part for part in (identity.source, table.catalog, table.schema, table.name) if part is not None]
    shortest = 1 if table.schema is None else 2
    # Some catalogs have no letter for NUL, and none has a table without a name.
    names = ["__".join(parts[-count:]).replace("\0", "\u2400") for count in range(shortest, len(parts) + 1)]
    identified = "\0".join(
        f"{part!r}" for part in (identity.source, table.catalog, table.schema, table.name, identity.kind)
    )
    last = f"{names[-1]}__{sha256(identified.encode(errors='surrogatepass')).hexdigest()[:16]}"
    return [name + suffix for name in (*names, last) if name]
