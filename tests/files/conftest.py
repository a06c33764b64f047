"""An object store on a free port of this machine."""

from collections.abc import Iterator

import boto3
import pytest
from moto.server import ThreadedMotoServer

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIADUMMYDUMMY", "AWS_SECRET_ACCESS_KEY": "very+secret/words"}


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of an empty bucket, with the environment set so that it is found."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    client = boto3.client("s3")
    client.create_bucket(Bucket="lake", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    try:
        yield "lake"
    finally:
        for upload in client.list_multipart_uploads(Bucket="lake").get("Uploads", []):
            client.abort_multipart_upload(Bucket="lake", Key=upload["Key"], UploadId=upload["UploadId"])
        for found in client.list_objects_v2(Bucket="lake").get("Contents", []):
            client.delete_object(Bucket="lake", Key=found["Key"])
        client.delete_bucket(Bucket="lake")
        client.close()
