"""Pipeline files: what they may say, and where their paths lead."""

from pathlib import Path

import pytest

from changeling.model.errors import UsageError
from changeling.model.times import span_millis
from changeling.pipelines.definition import (
    Feed,
    FilesSource,
    FilesTopic,
    KafkaSource,
    KafkaTopic,
    PostgresSource,
    PostgresTarget,
    TableRule,
    TableTopic,
    setting_texts,
)
from changeling.pipelines.loading import find, load
from tests.pipelines.pipeline_files import HEAD, USERS, loaded, refused, source

WHOLE = """\
name: shop
warehouse: ./lake
sources:
  - {name: pg, type: postgres, url: "${PG_URL}", tables: ["public.*"]}
  - {name: drop, type: files, path: "./in/*.json", format: ydb-json, table: users, key: [id], options: {}}
  - {name: bus, type: kafka, servers: "${KAFKA}", topics: ["xtdb.cdc.*"], format: xtdb, options: {}, kafka: {}}
tables:
  - {name: public.users, source: pg, key: [id], columns: {id: int64, name: string}, mode: merge, schema: evolve}
feeds:
  - {name: users_feed, table: public.users, with: {FORMAT: JSON, MODE: UPDATES}, topic: {type: table}}
targets: []
settle: 10s
retention: 30d
"""


def test_the_whole_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URL", "postgresql://me:sesame@db/shop")
    monkeypatch.setenv("KAFKA", "broker:9092")
    found = loaded(tmp_path, WHOLE)
    made = found.definition
    assert (made.name, made.settle, made.retention, made.spark, made.catalog) == ("shop", "10s", "30d", {}, {})
    assert made.sources == (
        PostgresSource(name="pg", url="postgresql://me:sesame@db/shop", tables=("public.*",)),
        FilesSource(name="drop", path="./in/*.json", format="ydb-json", table="users", key=("id",)),
        KafkaSource(name="bus", servers="broker:9092", topics=("xtdb.cdc.*",), format="xtdb"),
    )
    assert made.tables == (
        TableRule(name="public.users", source="pg", key=("id",), columns={"id": "int64", "name": "string"}),
    )
    feed = Feed(
        name="users_feed", table="public.users", settings={"FORMAT": "JSON", "MODE": "UPDATES"}, topic=TableTopic()
    )
    assert made.feeds == (feed,)
    assert made.targets == ()
    assert found.path == tmp_path / "shop.yaml"
    assert found.folder == tmp_path
    assert found.secrets == ("sesame",)


def test_the_size_of_a_record_is_a_setting_of_its_source(tmp_path: Path) -> None:
    found = loaded(tmp_path, HEAD + "  - {name: a, type: files, path: in, format: xtdb, record_bytes: 1000}\n")
    one = source(found, "a")
    assert isinstance(one, FilesSource)
    assert found.read_options(one).record_bytes == 1000
    found = loaded(tmp_path, HEAD + "  - {name: a, type: files, path: in, format: xtdb}\n")
    one = source(found, "a")
    assert isinstance(one, FilesSource)
    assert found.read_options(one).record_bytes == 64 * 1024 * 1024


def test_a_file_that_says_little_has_defaults(tmp_path: Path) -> None:
    found = loaded(tmp_path, HEAD + "  - {name: a, type: files, path: in, format: xtdb}\n")
    one, made = source(found, "a"), found.definition
    assert isinstance(one, FilesSource)
    assert (one.carrier, one.on_error, one.batch_bytes, one.batch_files) == ("plain", "reject", 536_870_912, 10_000)
    assert (one.table, one.key, one.columns, one.schema_file, one.options) == (None, (), {}, None, {})
    assert (made.tables, made.feeds, made.targets, made.settle, made.retention) == ((), (), (), "10s", "30d")
    found = loaded(tmp_path, HEAD + "  - {name: b, type: kafka, servers: 'h:1', topics: [t], format: xtdb}\n")
    topic = source(found, "b")
    assert isinstance(topic, KafkaSource)
    assert (topic.batch_records, topic.start, topic.on_gap, topic.on_error) == (1_000_000, "earliest", "fail", "reject")


def test_every_setting_may_be_said(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"table": "t", "columns": {"a": "int64"}}')
    found = loaded(
        tmp_path,
        """\
name: shop
warehouse: s3://bucket/lake
sources:
  - name: drop
    type: files
    path: in
    format: arcion-csv
    carrier: kcat
    table: users
    key: [id]
    columns: {id: int64, "no": "decimal(10, 2)"}
    schema_file: s.json
    options: {mode: snapshot, header: true, trim: false, null_text: 0}
    on_error: fail
    batch_bytes: 1
    batch_files: 2
  - name: bus
    type: kafka
    servers: a:1,b:2
    topics: [one, "two.*"]
    format: xtdb
    table: t
    key: [_id]
    columns: {_id: string}
    schema_file: s.json
    options: {topic_prefix: x.}
    kafka: {security.protocol: SSL, fetch.max.bytes: 5, check.crcs: true}
    on_error: reject
    batch_records: 3
    start: latest
    on_gap: skip
tables:
  - {name: t, id: 7, columns: {a: int64}, mode: history, schema: fail}
feeds:
  - name: f
    table: t
    source: drop
    with: {FORMAT: xtdb, MODE: NEW_AND_OLD_IMAGES, INITIAL_SCAN: true, RETENTION_PERIOD: 7d}
    options: {topic_prefix: x.}
    topic: {type: kafka, servers: "h:1", name: "{prefix}{table}.{feed}", prefix: a., partitions: 3, kafka: {acks: all}}
  - name: g
    table: t
    with: {FORMAT: arcion-csv, MODE: UPDATES}
    topic: {type: files, path: out, file_bytes: 5, file_time: 5m, partitions: 2}
targets:
  - {name: copy, type: postgres, url: "postgresql://h/d", tables: ["*"]}
settle: 500ms
retention: 1 h
spark: {spark.sql.shuffle.partitions: 4, spark.ui.enabled: false, spark.memory.fraction: 0.50}
catalog: {type: rest, uri: "http://h:1"}
""",
    )
    made = found.definition
    one, two = source(found), source(found, "bus")
    assert isinstance(one, FilesSource)
    assert isinstance(two, KafkaSource)
    assert (one.carrier, one.on_error, one.batch_bytes, one.batch_files) == ("kcat", "fail", 1, 2)
    assert (two.batch_records, two.start, two.on_gap, two.topics) == (3, "latest", "skip", ("one", "two.*"))
    assert setting_texts(two.kafka) == {"security.protocol": "SSL", "fetch.max.bytes": "5", "check.crcs": "true"}
    assert setting_texts(made.spark) == {
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
        "spark.memory.fraction": "0.50",
    }
    assert made.feeds == (
        Feed(
            name="f",
            table="t",
            source="drop",
            settings={"FORMAT": "xtdb", "MODE": "NEW_AND_OLD_IMAGES", "INITIAL_SCAN": True, "RETENTION_PERIOD": "7d"},
            options={"topic_prefix": "x."},
            topic=KafkaTopic(
                servers="h:1", name="{prefix}{table}.{feed}", prefix="a.", partitions=3, kafka={"acks": "all"}
            ),
        ),
        Feed(
            name="g",
            table="t",
            settings={"FORMAT": "arcion-csv", "MODE": "UPDATES"},
            topic=FilesTopic(path="out", file_bytes=5, file_time="5m", partitions=2),
        ),
    )
    assert made.targets == (PostgresTarget(name="copy", url="postgresql://h/d", tables=("*",)),)
    options = found.read_options(one)
    assert {name: getattr(options, name) for name in ("mode", "header", "trim", "null_text")} == {
        "mode": "snapshot",
        "header": True,
        "trim": False,
        "null_text": "0",
    }
    assert span_millis(made.retention) == 3_600_000


@pytest.mark.parametrize(
    ("text", "millis"),
    [("0s", 0), ("15ms", 15), ("10s", 10_000), ("5 m", 300_000), ("2h", 7_200_000), ("30d", 2_592_000_000)],
)
def test_spans(text: str, millis: int) -> None:
    assert span_millis(text) == millis


@pytest.mark.parametrize("text", ["", "10", "s", "1.5h", "-1s", "10s ", "10 weeks", "\u0661s"])
def test_what_is_no_span(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        span_millis(text)
    assert str(caught.value) == (f"{text!r} is not a span of time: write a number and ms, s, m, h or d, as in 10s")


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "shop.yaml").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    found = load("deep/shop.yaml")
    monkeypatch.chdir("/")
    assert found.warehouse == str(folder / "lake")
    assert found.resolve("./in/*.json") == str(folder / "in/*.json")
    assert found.resolve("../in") == f"{folder}/../in"
    assert found.resolve("~/in") == str(folder / "~/in")
    assert found.resolve("/in") == "/in"
    assert found.resolve("s3://bucket/../in") == "s3://bucket/../in"


def test_paths_with_dots_are_those_without(tmp_path: Path) -> None:
    far = tmp_path / "far" / "deep"
    for folder in (tmp_path / "here" / "sub", far / "sub"):
        folder.mkdir(parents=True)
        (folder.parent / "shop.yaml").write_text(USERS.replace("warehouse: lake", "warehouse: ../lake"))
    (tmp_path / "here" / "link").symlink_to(far / "sub")
    for way, folder in (
        ("here", tmp_path / "here"),
        ("here/sub/..", tmp_path / "here"),
        ("here/./sub/../../here", tmp_path / "here"),
        # Out of what the link leads to, as the system sees it.
        ("here/link/..", far),
    ):
        loaded = load(f"{tmp_path}/{way}/shop.yaml")
        assert (loaded.folder, loaded.warehouse) == (folder, str(folder.parent / "lake"))
    (tmp_path / "there").symlink_to(tmp_path / "here")
    assert load(tmp_path / "there" / "shop.yaml").folder == tmp_path / "there"


def test_a_warehouse_elsewhere_stays_as_it_is(tmp_path: Path) -> None:
    assert loaded(tmp_path, USERS.replace("lake", "s3://bucket/lake")).warehouse == "s3://bucket/lake"
    assert loaded(tmp_path, USERS.replace("lake", "/lake")).warehouse == "/lake"


def test_a_link_to_the_file_counts_as_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "shop.yaml").write_text(USERS)
    (tmp_path / "shop.yaml").symlink_to("real/shop.yaml")
    assert load(tmp_path / "shop.yaml").warehouse == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("name", "why"),
    [("no.yaml", "No such file or directory"), ("", "Is a directory"), ("a\0b", "embedded null byte")],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    file = tmp_path / name
    with pytest.raises(UsageError) as caught:
        load(file)
    assert str(caught.value) == f"{file}: {why}"


def test_errors_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.yaml").write_text("name: 5")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        load("./shop.yaml")
    assert str(caught.value).splitlines()[0] == "./shop.yaml:1: warehouse, sources are missing"


def test_the_one_pipeline_of_the_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.yml").write_text(USERS.replace("lake", "${NOT_SET_HERE}"))
    (tmp_path / "compose.yaml").write_text("services: {a: b}\n")
    (tmp_path / "list.yaml").write_text("[sources]\n")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "broken.yaml").write_text("sources: [\n")
    (tmp_path / "sources.txt").write_text(USERS)
    (tmp_path / "folder.yaml").mkdir()
    assert find() == Path("shop.yml")
    assert find("other.yaml") == Path("other.yaml")


def test_a_folder_without_a_pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        find()
    assert str(caught.value) == "there is no pipeline in this folder; name one with --pipeline FILE"
    (tmp_path / "shop.yaml").write_text("sources: [\n")
    (tmp_path / "other.yaml").write_bytes(b"\xff")
    with pytest.raises(UsageError) as caught:
        find()
    assert str(caught.value) == (
        "there is no pipeline in this folder (other.yaml, shop.yaml cannot be read as YAML);"
        " name one with --pipeline FILE"
    )


def test_a_folder_with_several_pipelines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.yaml", "a.yml"):
        (tmp_path / name).write_text(USERS)
    with pytest.raises(UsageError) as caught:
        find()
    assert str(caught.value) == "there are 2 pipelines here: a.yml, b.yaml; choose one with --pipeline FILE"


def test_all_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    text = """\
name: shop
warehouse: ${WAREHOUSE_NOT_SET}
sources:
  - {name: drop, type: files, path: in, formt: xtdb}
  - {name: bus, type: kafka, servers: "${SERVERS_NOT_SET}", topics: t, format: xtdb}
  - name: more
    type: files
    path: in
    format: xtdbb
    columns: {id: int46, name: strng}
    record_bytes: 2000000000
  - {name: pg, type: postgres, tables: ["public.*"]}
  - {name: last, type: files, path: in, format: ydb-jsn, options: {table: x}, key: [id, id]}
tables:
  - {name: public.users, source: pg, mask: [email], mode: merg}
  - {name: a..b, source: drp}
  - {name: users, source: pg, exclude: [secret]}
  - {name: t, source: drop, exclude: [secret]}
feeds:
  - {name: f, table: t, with: {FORMAT: JSON, MODE: UPDATE}}
settle: 10
"""
    problems = refused(tmp_path, text).replace(f"{tmp_path}/", "").splitlines()
    assert problems == [
        "shop.yaml:2: warehouse: the environment has no variable WAREHOUSE_NOT_SET; set it first",
        "shop.yaml:4: sources[0].formt: there is no such setting; did you mean 'format'?",
        "shop.yaml:5: sources[1].servers: the environment has no variable SERVERS_NOT_SET; set it first",
        "shop.yaml:5: sources[1].topics: must be a list, not text: write [t]",
        "shop.yaml:9: sources[2].format: there is no format 'xtdbb'; did you mean 'xtdb'?",
        "shop.yaml:10: sources[2].columns.id: there is no type 'int46'; did you mean 'int64'?",
        "shop.yaml:10: sources[2].columns.name: there is no type 'strng'; did you mean 'string'?",
        "shop.yaml:11: sources[2].record_bytes: must be at most 1073741824",
        "shop.yaml:12: sources[3]: url is missing",
        "shop.yaml:13: sources[4].format: there is no format 'ydb-jsn'; did you mean 'ydb-json'?",
        "shop.yaml:13: sources[4].key[1]: the column 'id' is listed twice",
        "shop.yaml:15: tables[0].mode: there is no mode 'merg'; did you mean 'merge'?",
        "shop.yaml:16: tables[1].source: there is no source 'drp'; did you mean 'drop'?",
        "shop.yaml:16: tables[1].name: 'a..b' is not a table name: write [catalog.][schema.]name",
        "shop.yaml:18: tables[3].exclude: this is possible for postgres sources only: set `source:`, and not to 'drop'",
        "shop.yaml:20: feeds[0].with.MODE: MODE: there is no mode 'UPDATE'; did you mean 'UPDATES'?",
        "shop.yaml:21: settle: must be a number and ms, s, m, h or d, as in 10s",
    ]
