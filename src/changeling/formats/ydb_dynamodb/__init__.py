"""`ydb-dynamodb`: YDB's changefeeds with FORMAT = DYNAMODB_STREAMS_JSON (seed 004), and Amazon DynamoDB Streams' own."""

from changeling.formats.capabilities import carrying
from changeling.formats.changefeed import CARRIED, Mode
from changeling.formats.format import Format
from changeling.formats.ydb_dynamodb.read import YdbDynamodbRead, reader
from changeling.formats.ydb_dynamodb.types import TYPES
from changeling.formats.ydb_dynamodb.write import YdbDynamodbWrite, writer

FORMAT = Format(
    name="ydb-dynamodb",
    summary="YDB's changefeeds, FORMAT = DYNAMODB_STREAMS_JSON, and Amazon DynamoDB Streams: typed attribute values",
    read_options=YdbDynamodbRead,
    write_options=YdbDynamodbWrite,
    reader=reader,
    writer=writer,
    carries=carrying(*CARRIED, "insert", "upsert"),
    types=TYPES,
    position="SequenceNumber",
    names_table=False,
    feed_modes=tuple(Mode),
    signs=(("eventName", "dynamodb"), ("Records",)),
)
