"""The body of requests and replies: a safetensors file, with scalars as JSON in its metadata."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

CONTENT_TYPE = "application/vnd.safetensors"
DTYPES: dict[str, type] = {"F32": np.float32, "I32": np.int32, "U8": np.uint8}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}


class BadRequest(ValueError):
    """The request cannot be carried out. Nothing has happened."""


def encode(arrays: Arrays, meta: dict[str, Any] | None = None) -> bytes:
    """Returns the bytes of arrays and of a dict of JSON values."""
    header: dict[str, Any] = {"__metadata__": {k: json.dumps(v) for k, v in (meta or {}).items()}}
    parts, at = [], 0
    for name, array in arrays.items():
        array = np.ascontiguousarray(array)
        header[name] = {
            "dtype": NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        parts.append(array.tobytes())
        at += array.nbytes
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    return b"".join([len(head).to_bytes(8, "little"), head, *parts])


def decode(body: bytes) -> tuple[Arrays, dict[str, Any]]:
    """Returns the arrays, as read-only views of body, and the metadata."""
    try:
        return _decode(body)
    except BadRequest:
        raise
    except Exception as e:
        raise BadRequest(f"the body is no safetensors file: {e}") from e


def _decode(body: bytes) -> tuple[Arrays, dict[str, Any]]:
    if not body:
        return {}, {}
    if len(body) < 8:
        raise BadRequest(f"a body of {len(body)} bytes is shorter than the length of its header")
    n = int.from_bytes(body[:8], "little")
    if n > len(body) - 8:
        raise BadRequest(f"a header of {n} bytes in a body of {len(body)}")
    header, data = json.loads(body[8 : 8 + n]), memoryview(body)[8 + n :]
    meta = {k: json.loads(v) for k, v in header.pop("__metadata__", {}).items()}
    arrays: Arrays = {}
    for name, tensor in header.items():
        lo, hi = (int(x) for x in tensor["data_offsets"])
        shape = [int(x) for x in tensor["shape"]]
        if tensor["dtype"] not in DTYPES:
            raise BadRequest(f"array {name!r} has the type {tensor['dtype']}; expected one of {', '.join(DTYPES)}")
        dtype = np.dtype(DTYPES[tensor["dtype"]])
        size = dtype.itemsize
        for side in shape:
            if side < 0 or size > len(data) + dtype.itemsize:
                raise BadRequest(f"array {name!r} has the shape {shape}")
            size *= side
        if not 0 <= lo <= hi <= len(data) or hi - lo != size:
            raise BadRequest(f"array {name!r}: bytes {lo} to {hi} do not fit the shape {shape}")
        arrays[name] = np.frombuffer(data[lo:hi], dtype).reshape(shape)
    return arrays, meta
