"""The options of the data source are checked by name; the plans of a stream outlive crashes and belong to one stream."""

from pathlib import Path

import pytest

from changeling.datasource.plan_file import PlanFile
from changeling.datasource.settings import FilesPlace, KafkaPlace, Rejects, parse
from changeling.model.errors import ChangelingError, UsageError
from changeling.model.table import TableName


def test_options_are_those_of_everywhere() -> None:
    files = parse({"Format": "xtdb", "path": "in/*.json", "table": "a.b", "batch_files": "3", "rejects": "only"})
    assert files.place == FilesPlace("in/*.json", batch_files=3)
    assert files.options.table == TableName(None, "a", "b")
    assert files.rejects is Rejects.ONLY
    topics = parse({"format": "debezium", "servers": "h:1", "topics": "a,b*", "kafka.security.protocol": "SSL"})
    assert topics.format == "debezium-json"
    assert topics.place == KafkaPlace("h:1", "a,b*", settings={"security.protocol": "SSL"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"path": "a"}, "say what the records are: .option('format', …), one of arcion-csv"),
        ({"format": "xtdb"}, "say where the records are: load(PATH) for files, or the options 'servers' and 'topics'"),
        ({"format": "xtbd", "path": "a"}, "there is no format 'xtbd'; did you mean 'xtdb'?"),
        ({"format": "xtdb", "path": "a", "tabel": "t"}, "reading xtdb has no option 'tabel'; did you mean 'table'?"),
        ({"format": "xtdb", "path": "a", "batch_files": "few"}, "the options of the data source: Expected `int`"),
        ({"format": "xtdb", "path": "a", "rejects": "skp"}, "there is no rejects = 'skp'; did you mean 'skip'?"),
        (
            {"format": "xtdb", "servers": "h:1"},
            "the options of the data source: Object missing required field `topics`",
        ),
        ({"format": "xtdb", "path": "a", "kafka.acks": "1"}, "the option kafka.acks is for Kafka, and files are read"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(given)
    assert str(error.value).startswith(said)


def test_plans_outlive_a_crash_and_belong_to_one_stream(tmp_path: Path) -> None:
    path = tmp_path / "new" / "users.plans"
    first = PlanFile(str(path))
    first.add("one")
    first.add("two")
    with pytest.raises(ChangelingError, match="has the plans of a stream that runs"):
        PlanFile(str(path))
    first.close()
    with open(path, "ab") as file:
        file.write(b"cut o")
    again = PlanFile(str(path))
    again.add("three")
    assert again.between(1, 3) == ["two", "three"]
    with pytest.raises(ChangelingError, match="has 3 plans, and the checkpoint of the stream is at 4"):
        again.between(4, 3)
    again.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"
