"""Object stores that speak S3, configured by the usual AWS variables of the environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from changeling.model.errors import ChangelingError, UsageError

SCHEME = "s3://"
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


def bucket_and_key(address: str) -> tuple[str, str]:
    """The two parts of `s3://bucket/key`; the key may be empty."""
    bucket, _, key = address.removeprefix(SCHEME).partition("/")
    if "@" in bucket:
        raise UsageError("an s3:// address must hold no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
    if not bucket:
        raise UsageError(f"{address}: no bucket; write s3://bucket/key")
    return bucket, key


def filesystem(upload: bool = False) -> fs.FileSystem:
    """The object store that the environment names.

    AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, and credentials where AWS tools look for them.
    With `upload`, an upload starts with the first full part, and no part is sent in the background: so an aborted upload
    leaves as little as possible.
    """
    return _filesystem(
        upload,
        _first("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        _first("AWS_REGION", "AWS_DEFAULT_REGION"),
        tuple(os.environ.get(name) for name in _SECRETS),
    )


def _first(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


@cache
def _filesystem(
    upload: bool, endpoint: str | None, region: str | None, _credentials: tuple[str | None, ...]
) -> fs.FileSystem:
    options: dict[str, Any] = {"allow_delayed_open": upload, "background_writes": not upload}
    options |= {"connect_timeout": 10.0, "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=3)}
    if endpoint:
        parts = urlsplit(endpoint if "://" in endpoint else f"https://{endpoint}")
        options |= {"scheme": parts.scheme, "endpoint_override": parts.netloc.rpartition("@")[2]}
    if region or endpoint:
        options["region"] = region or "us-east-1"
    return fs.S3FileSystem(**options)


@contextmanager
def naming_errors(address: str) -> Iterator[None]:
    """Translates an error of a store (or a file system) into one that names the address, and never a secret."""
    try:
        yield
    except OSError as error:
        message = error.strerror or str(error)
        for name in _SECRETS:
            if secret := os.environ.get(name):
                message = message.replace(secret, f"${name}")
        raise ChangelingError(f"{address}: {message}") from None


def check_bucket(bucket: str) -> None:
    """Raises `UsageError` if there is no such bucket."""
    with naming_errors(f"{SCHEME}{bucket}"):
        found = filesystem().get_file_info(bucket)
    if found.type == fs.FileType.NotFound:
        raise UsageError(f"{SCHEME}{bucket}: there is no such bucket, or you have no access to it")
