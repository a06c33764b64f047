"""Changeling on Spark: the session, and decode and encode over frames and files."""

from changeling.spark.dialects import Decoded, Encoded, decode, decode_both, encode, encode_both
from changeling.spark.files import decode_files
from changeling.spark.session import session

__all__ = ["Decoded", "Encoded", "decode", "decode_both", "decode_files", "encode", "encode_both", "session"]
