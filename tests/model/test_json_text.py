"""JSON as text: digits stay, and equal values have one canonical spelling."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changeling.model.errors import Rejected
from changeling.model.json_text import canonical, canonical_key, check_depth, compact, join, members


def test_members_keep_their_digits_and_order() -> None:
    text = b'{ "b": 150.00, "a": [1, 2.50],\n "c": "\\u00e9" }'
    assert list(members(text).items()) == [("b", b"150.00"), ("a", b"[1, 2.50]"), ("c", b'"\\u00e9"')]
    assert join(members(text).items()) == b'{"b":150.00,"a":[1, 2.50],"c":"\\u00e9"}'
    assert compact(text) == b'{"b":150.00,"a":[1,2.50],"c":"\\u00e9"}'


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1", "1"),
        ("-0", "0"),
        ("0.0", "0"),
        ("1.50", "1.5"),
        ("2.0", "2"),
        ("1E3", "1000"),
        ("-12.5e-2", "-0.125"),
        ("18446744073709551615", "18446744073709551615"),
        ("123456789012345678901234567890123456789", "123456789012345678901234567890123456789"),
        ("1e400", "1e400"),
        ("10e399", "1e400"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ('"\\u0041\\/"', '"A/"'),
        ('{"b":1,"a":[ 1.0, {"d":2,"c":null} ]}', '{"a":[1,{"c":null,"d":2}],"b":1}'),
    ],
)
def test_one_spelling_for_equal_values(text: str, same: str) -> None:
    assert canonical(text.encode()) == same.encode()


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_canonical_number_is_the_same_number(number: Decimal) -> None:
    text = str(number).replace("E+", "e").encode()
    assert Decimal(canonical(text).decode()) == number
    assert canonical(canonical(text)) == canonical(text)


def test_a_key_is_sorted_by_name() -> None:
    assert canonical_key([("b", b"1.0"), ("a", b'"x"')]) == b'{"a":"x","b":1}'


def test_depth() -> None:
    check_depth(b"[" * 500 + b"]" * 500)
    check_depth(b'"' + b"[" * 600 + b'"')
    check_depth(b'"\\"' + b"[" * 600 + b'"')
    check_depth(b"[]" * 600)
    with pytest.raises(Rejected):
        check_depth(b"[" * 501)
