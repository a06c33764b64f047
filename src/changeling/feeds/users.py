"""Who made a change: where records of YDB's three forms say so, and where feeds with USER_SIDS show it."""

from changeling.model import json_text
from changeling.model.json_text import quote


def user_of(encoding: str, meta: str | None) -> str | None:
    """The user that a record named; None where it named none."""
    if meta is None:
        return None
    members = json_text.members(meta)
    found = None
    if encoding == "ydb-json":
        found = members.get("user")
    elif encoding == "ydb-debezium" and "payload" in members:
        source = json_text.members(members["payload"]).get("source", b"{}")
        found = json_text.members(source).get("user") if source[:1] == b"{" else None
    return None if found is None or found[:1] != b'"' else json_text.string(found)


def with_user(form: str, value: bytes, user: str) -> bytes:
    """A record that names its user, as YDB writes it in each of its forms."""
    members = json_text.members(value)
    if form == "ydb-json":
        members["user"] = quote(user)
    elif form == "ydb-dynamodb":
        members["userIdentity"] = quote({"type": "User", "principalId": user})
    else:
        payload = json_text.members(members["payload"])
        source = json_text.members(payload["source"])
        payload["source"] = json_text.join([*source.items(), ("user", quote(user))])
        members["payload"] = json_text.join(payload.items())
    return json_text.join(members.items())
