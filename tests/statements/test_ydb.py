"""YDB's statements, one a test; each name begins with its number in the list of statements."""

import pytest

from tests.statements.reading import converted, decoded

MODES = ["KEYS_ONLY", "UPDATES", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
LIFE = ["xtdb/seed-create", "xtdb/seed-update", "xtdb/seed-delete"]


@pytest.mark.parametrize("mode", MODES)
def test_004_30_to_004_34_what_each_mode_shows(mode: str) -> None:
    insert, update, erase = (converted(case, "ydb-json", mode=mode)[0] for case in LIFE)
    assert [list(record)[:2] for record in (insert, update, erase)] == [["key", "update"]] * 2 + [["key", "erase"]]
    assert erase["erase"] == {}
    new, old = mode in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"), mode in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES")
    assert [("newImage" in record, "oldImage" in record) for record in (insert, update, erase)] == [
        (new, False),
        (new, old),
        (False, old),
    ]
    changed = {"email": "john.doe@example.com", "age": 31, "last_updated": "2023-12-26T14:30:15.456Z"}
    assert update["update"] == (changed if mode == "UPDATES" else {})


def test_004_35_to_004_38_the_samples() -> None:
    (update,) = decoded("ydb-json/seed-update")
    assert (update["op"], update["after_image"]) == ("upsert", "partial")
    assert list(update["key"].values()) == [1, "one"]
    (erase,) = decoded("ydb-json/seed-erase")
    assert (erase["op"], list(erase["key"].values())) == ("delete", [2, "two"])
    (images,) = decoded("ydb-json/seed-row-snapshots")
    assert images["before"] == {"textColumn": None, "intColumn": 100, "boolColumn": False}
    (stamped,) = decoded("ydb-json/seed-virtual-timestamps")
    assert stamped["position"] == "131670792400890.15562949953607163"


@pytest.mark.parametrize("mode", MODES)
def test_004_49_004_51_and_004_55_debezium_form_in_each_mode(mode: str) -> None:
    insert, update, delete = (converted(case, "ydb-debezium", mode=mode)[0]["payload"] for case in LIFE)
    assert (insert["op"], update["op"], delete["op"]) == ("c" if mode == "NEW_AND_OLD_IMAGES" else "u", "u", "d")
    assert ("after" in update) is (mode in ("NEW_IMAGE", "NEW_AND_OLD_IMAGES"))
    assert ("before" in update) is (mode in ("OLD_IMAGE", "NEW_AND_OLD_IMAGES"))
    assert [payload["source"]["snapshot"] for payload in (insert, update, delete)] == [False] * 3


def test_004_50_a_scanned_row_is_r() -> None:
    (payload,) = (record["payload"] for record in converted("xtdb/snapshot-read", "ydb-debezium"))
    assert (payload["op"], payload["source"]["snapshot"]) == ("r", True)
