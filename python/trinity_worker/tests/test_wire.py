"""Bodies that are no requests."""

import json
import struct

import numpy as np
import pytest

from trinity_worker import wire


def body(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def array(dtype: str = "F32", shape: object = (1,), offsets: object = (0, 4)) -> dict:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


BAD = {
    "short": b"1234567",
    "header beyond the body": struct.pack("<Q", 1 << 62) + b"{}",
    "no JSON": body(b"{"),
    "no text": body(b"\xff\xfe"),
    "nested": body(b"[" * 100000),
    "list": body([]),
    "metadata is a list": body({"__metadata__": [1]}),
    "metadata is no JSON": body({"__metadata__": {"a": "{"}}),
    "array is a number": body({"a": 1}),
    "type": body(array("BF16"), b"1234"),
    "type is a list": body({"a": {"dtype": [], "shape": [1], "data_offsets": [0, 4]}}, b"1234"),
    "bytes beyond the body": body(array(offsets=(4, 8)), b"1234"),
    "backwards": body(array(shape=(0,), offsets=(4, 0)), b"1234"),
    "other shape": body(array(shape=(2,)), b"1234"),
    "negative": body(array(shape=(-1, -1)), b"1234"),
    "empty and huge": body(array(shape=(0, 10**30), offsets=(0, 0))),
    "infinite": body(array(offsets=(0, float("inf"))), b"1234"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_bodies(name: str) -> None:
    with pytest.raises(wire.BadRequest):
        wire.decode(BAD[name])


def test_arrays_come_back() -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.zeros(0, np.int32),
        "c": np.array([1, 0], np.uint8),
    }
    got, meta = wire.decode(wire.encode(arrays, {"x": [1, "é"]}))
    assert meta == {"x": [1, "é"]} and list(got) == list(arrays)
    for name, a in arrays.items():
        assert got[name].dtype == a.dtype and (got[name] == a).all()
