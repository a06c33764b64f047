"""Which test shows each statement on feeds, topics, publishing and files that are written."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
_ARCION = "feeds/test_arcion_files.py::test_arcion_s_modes_into_files"
_CONNECT = "feeds/test_kafka_connect.py::test_sinks_of_kafka_connect_read_feeds"
_CONSUMERS = "feeds/test_kafka_pipeline_feeds.py::test_consumers_that_are_not_ours_get_each_change_once_and_in_order"
_DROPPED = "feeds/test_publishing.py::test_dropped_feeds_and_tables_go_and_do_not_come_back"
_EXPIRED = "feeds/test_retention.py::test_what_has_expired_goes_away_and_offsets_go_on"
_GAPS = "feeds/test_reading.py::test_what_has_expired_is_not_seen_and_missed_offsets_are_reported"
_KAFKA = "feeds/test_feeds_into_kafka.py::test_what_a_consumer_gets"
_KILLED = "feeds/test_killed_feeds.py::test_feeds_of_runs_that_are_killed"
_LIFE = "feeds/test_seed_life.py::test_the_documents_of_the_seed_and_the_rows_of_another_source"
_MODES = "feeds/test_every_mode.py::test_modes_formats_options_and_restarts"
_ONCE = "feeds/test_publishing.py::test_changes_behind_the_point_of_creation_are_published_once_in_order_and_complete"
_POSTGRES = "feeds/test_postgres_feeds.py::test_the_samples_of_ydb_on_tables_of_postgresql"
_RANDOM = "feeds/test_random_feeds.py::test_feeds_keep_their_promises"
_REFUSED = "feeds/test_options.py::test_tables_that_cannot_have_a_feed"
_SAMPLES = "feeds/test_ydb_samples.py::test_every_sample_of_ydb_comes_out_of_a_feed_of_ours"
_SCAN = "feeds/test_initial_scan.py::test_rows_that_change_during_the_scan"
_SCAN_BESIDE = "feeds/test_initial_scan.py::test_the_source_and_other_feeds_go_on_beside_a_scan"
_SEEN = "feeds/test_hard_values.py::test_every_format_and_mode_keeps_what_is_hard_to_keep"
_SETTABLE = "feeds/test_options.py::test_what_can_be_set"
_TOGETHER = "feeds/test_stamps.py::test_a_feed_that_publishes_two_points_together"
_YDB_MODES = "statements/test_ydb.py::test_004_30_to_004_34_what_each_mode_shows"
_YDB_SAMPLES = "statements/test_ydb.py::test_004_35_to_004_38_the_samples"

SHOWN: dict[str, tuple[str, ...]] = {
    "000-01": ("statements/test_s3.py::test_000_01_files_on_s3_in_both_forms", _ARCION, "feeds/test_files_topic.py::test_objects_of_s3"),
    "000-02": (_ARCION,),
    "000-04": (_ARCION,),
    "000-05": ("statements/test_arcion.py::test_000_05_full_mode_has_the_realtime_layout", _ARCION),
    "000-09": (_ARCION, _SEEN),
    "000-13": (_ARCION, "feeds/test_files_topic.py::test_a_killed_run_is_continued_with_the_same_files"),
    "000-14": (_ARCION, "feeds/test_files_topic.py::test_a_file_has_one_header"),
    "000-15": (_ARCION,),
    "000-20": (_ARCION,),
    "000-24": (_ARCION,),
    "000-25": (_ARCION,),
    "000-31": (_ARCION,),
    "000-33": (_ARCION,),
    "000-40": (_SEEN,),
    "001-02": (_CONSUMERS, _KAFKA),
    "001-04": (_MODES,),
    "001-05": (_MODES,),
    "001-06": ("statements/test_dataworks.py::test_001_06_sequence_ids_are_texts_that_rise_with_each_event", _MODES),
    "001-09": (
        "statements/test_growing_log.py::test_001_09_records_that_are_delivered_twice_are_both_kept_with_equal_position_and_key",
        _ONCE,
        _RANDOM,
    ),
    "001-11": (_MODES,),
    "001-12": (_MODES,),
    "001-13": (_MODES,),
    "001-14": (_MODES,),
    "001-15": (_MODES,),
    "001-16": (_MODES,),
    "001-17": (_MODES,),
    "001-18": (_MODES,),
    "002-01": ("log/test_kafka_pipeline.py::test_002_01_and_002_16_topics_by_pattern_are_one_source_with_one_order", _CONSUMERS),
    "002-02": (_LIFE,),
    "002-03": (_LIFE,),
    "002-04": (_LIFE,),
    "002-05": (_LIFE,),
    "002-07": (_LIFE,),
    "002-08": (_LIFE,),
    "002-09": (_LIFE,),
    "002-11": ("statements/test_xtdb.py::test_002_11_002_15_and_002_25_transactions", _LIFE),
    "002-12": (_LIFE,),
    "002-13": (_LIFE,),
    "002-18": (_CONSUMERS,),
    "002-19": (_KAFKA, _RANDOM),
    "002-21": (_LIFE,),
    "002-24": (_LIFE,),
    "002-26": (_LIFE, _SEEN),
    "002-27": (_LIFE, _SEEN),
    "002-28": (_LIFE, _SEEN),
    "002-29": (_LIFE,),
    "002-30": (_LIFE,),
    "002-31": (_LIFE,),
    "002-32": (_LIFE, _SEEN),
    "002-33": (_LIFE, _SEEN),
    "002-34": (_CONSUMERS, "feeds/test_reading_back.py::test_feeds_of_debezium_s_and_xtdb_s_kind_make_the_same_replica_again"),
    "002-35": (_CONNECT,),
    "002-37": (
        "replicas/test_seeds_transactions.py::test_002_37_half_a_transaction_is_seen_in_no_table_and_a_later_one_shows_it_whole",
        "replicas/test_seeds_transactions.py::test_002_37_a_transaction_with_nothing_after_it_is_seen_whole_when_it_has_settled",
        _SCAN_BESIDE,
        _LIFE,
    ),
    "004-01": (_ONCE, "feeds/test_commands_of_readers.py::test_a_feed_is_read_verified_and_shown"),
    "004-02": (_REFUSED, "feeds/test_definitions.py::test_tables_that_are_refused_are_marked"),
    "004-03": (_MODES, _REFUSED),
    "004-04": (_MODES, _CONSUMERS),
    "004-05": (_CONSUMERS, _KAFKA, "feeds/test_kafka_topic.py::test_a_process_that_is_killed_sends_nothing_twice", _KILLED),
    "004-06": (_RANDOM, _CONSUMERS, _KILLED),
    "004-07": (_POSTGRES,),
    "004-08": (_SETTABLE, "feeds/test_options.py::test_what_is_refused"),
    "004-09": (_MODES,),
    "004-10": (_MODES, _ONCE),
    "004-11": (_MODES,),
    "004-12": (_ONCE, _MODES, _TOGETHER),
    "004-13": (_MODES,),
    "004-14": (_MODES,),
    "004-15": (_MODES, _SAMPLES),
    "004-16": (_MODES,),
    "004-17": (_SCAN, _MODES),
    "004-18": (_SCAN, _SCAN_BESIDE),
    "004-19": (_SCAN,),
    "004-20": (_SCAN,),
    "004-21": (_SCAN,),
    "004-22": (_SCAN,),
    "004-23": (_SCAN, _RANDOM, _KILLED),
    "004-24": (_SCAN,),
    "004-25": (_SCAN,),
    "004-26": (_SCAN_BESIDE,),
    "004-27": (_SCAN,),
    "004-28": (_MODES, _SAMPLES, _SEEN),
    "004-29": (_MODES, _SAMPLES),
    "004-30": (_YDB_MODES, _MODES),
    "004-31": (_YDB_MODES, _POSTGRES),
    "004-32": (_YDB_MODES, _MODES),
    "004-33": (_YDB_MODES, _MODES),
    "004-34": (_YDB_MODES, _MODES),
    "004-35": (_YDB_SAMPLES, _SAMPLES),
    "004-36": (_YDB_SAMPLES, _SAMPLES),
    "004-37": (_YDB_SAMPLES, _SAMPLES),
    "004-38": (_YDB_SAMPLES, _SAMPLES),
    "004-39": ("statements/test_log.py::test_000_23_001_10_001_12_003_06_and_004_39_what_no_source_may_send_is_rejected",),
    "004-40": (_MODES,),
    "004-41": (_REFUSED,),
    "004-42": (_SAMPLES, _MODES),
    "004-43": (_MODES,),
    "004-44": (_MODES, _SAMPLES, "formats/test_ydb_dynamodb_types.py::test_an_aws_reader_parses_what_is_written"),
    "004-45": (_MODES,),
    "004-46": (_MODES,),
    "004-47": (_MODES, _SAMPLES),
    "004-48": (_MODES, _SAMPLES),
    "004-49": (_MODES,),
    "004-50": (_SCAN, "statements/test_ydb.py::test_004_50_a_scanned_row_is_r"),
    "004-51": (_MODES,),
    "004-52": (_MODES, _SAMPLES),
    "004-53": (_POSTGRES,),
    "004-54": (_ONCE, _MODES),
    "004-55": (_SCAN, _MODES),
    "004-56": (_MODES, _KAFKA),
    "004-57": (_MODES, _EXPIRED, "feeds/test_retention.py::test_a_single_run_drops_what_has_expired"),
    "004-58": (_MODES,),
    "004-59": (_EXPIRED,),
    "004-60": (_GAPS,),
    "004-61": (_MODES,),
    "004-62": (_MODES,),
    "004-63": (_REFUSED,),
    "004-64": (_MODES, "feeds/test_definitions.py::test_a_feed_starts_at_the_last_point_of_its_table"),
    "004-65": (_DROPPED,),
    "004-66": (_DROPPED, "feeds/test_definitions.py::test_a_dropped_table_takes_its_feeds_along_and_is_remembered"),
}  # fmt: skip


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef))


@pytest.mark.parametrize("statement", SHOWN)
def test_every_statement_on_feeds_has_its_tests(statement: str) -> None:
    for place in SHOWN[statement]:
        file, _, name = place.partition("::")
        assert name in _tests_of(file), place


def test_all_statements_of_ydb_are_here() -> None:
    assert [one for one in SHOWN if one.startswith("004")] == [f"004-{number:02d}" for number in range(1, 67)]
