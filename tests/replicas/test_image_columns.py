"""Images taken apart by column have the values that each has by itself."""

import msgspec
import pyarrow as pa
import pytest

from changeling.replicas.image_columns import image_columns

NAMES = {"a", "b", "Größe"}


def test_values_are_as_they_were() -> None:
    images = ['{"a":1.50,"b":"x\\"y"}', '{ "b" : null , "a" : {"c": [1, 2]} }', '{"Größe":\nnull}', "{}"]
    found = image_columns(pa.array(images), NAMES, {"b"})
    assert found is not None
    assert {name: column.to_pylist() for name, column in found.items()} == {
        "a": [b"1.50", b'{"c": [1, 2]}', None, None],
        "b": ['x"y', None, None, None],
        "Größe": [None, None, b"null", None],
    }


@pytest.mark.parametrize("image", ['{"c":1}', '{"b":1}', '{"b":"\\ud800"}'])
def test_odd_images_are_left_to_be_taken_apart_one_by_one(image: str) -> None:
    assert image_columns(pa.array(['{"a":1}', image]), NAMES, {"b"}) is None


@pytest.mark.parametrize("name", ['"', "\\", "\n"])
def test_names_that_no_struct_can_have(name: str) -> None:
    image = msgspec.json.encode({name: 1}).decode()
    assert image_columns(pa.array([image]), {name}, set()) is None
