"""Records random blocks of every type with the float32 values that the gguf Python package gives, and numbers with the blocks that it makes of them.

Usage: python record.py   (needs numpy and gguf; writes dequantize.json.gz, quantize.json.gz and small.gguf beside this file)
"""
import base64
import gzip
import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T, GGUFWriter
from gguf.quants import dequantize, quantize

HERE = pathlib.Path(__file__).parent
# type -> bytes per block, offsets of the f16 numbers in it
TYPES = {
    T.F32: (4, None), T.F16: (2, [0]), T.BF16: (2, None),
    T.Q4_0: (18, [0]), T.Q4_1: (20, [0, 2]), T.Q5_0: (22, [0]), T.Q5_1: (24, [0, 2]), T.Q8_0: (34, [0]),
    T.Q4_K: (144, [0, 2]), T.Q5_K: (176, [0, 2]), T.Q6_K: (210, [208]),
}


def blocks(rng, kind, count):
    size, halves = TYPES[kind]
    if kind in (T.F32, T.BF16):
        values = rng.standard_normal(count).astype("<f4")
        return values.view(np.uint8) if kind == T.F32 else (values.view("<u4") >> 16).astype("<u2").view(np.uint8)
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for offset in halves:
        scale = (rng.standard_normal(count) * 10.0 ** rng.integers(-7, 2, count)).astype("<f2")  # some are subnormal
        data[:, offset:offset + 2] = scale.view(np.uint8).reshape(count, 2)
    return data.reshape(-1)


def write_json(name, value):
    with gzip.GzipFile(HERE / name, "wb", mtime=0) as f:
        f.write(json.dumps(value).encode())


def text(array):
    return base64.b64encode(array.tobytes()).decode()


def record_quantized():
    """Blocks of many scales, halves that must be rounded, equal numbers and zeros."""
    rng = np.random.default_rng(21)
    normal = rng.standard_normal((40, 32)) * 10.0 ** rng.integers(-9, 4, (40, 1))
    ties = rng.integers(-254, 255, (8, 32)) / 2
    ties[:, 0] = 127  # the scale of Q8_0 is 1
    grid = rng.integers(0, 31, (4, 32)) / 2
    grid[:, :2] = [0, 15]  # the scale of Q4_1 is 1
    flat = np.repeat([[0.0], [1.5], [-3.25]], 32, axis=1)
    halves = (rng.integers(0, 1 << 16, (8, 32)).astype("<u2").view("<f2")).astype("<f4")
    halves = np.where(np.isfinite(halves), halves, 1) * (1 + rng.integers(-3, 4, (8, 32)) * 2.0 ** -12)  # ties and neighbours of f16
    halves = np.clip(halves, -60000, 60000)
    values = np.concatenate([normal, ties, grid, flat, halves]).astype("<f4")
    cases = [{"type": kind.name, "number": int(kind), "values": text(values), "blocks": text(np.ascontiguousarray(quantize(values, kind)))}
             for kind in (T.F32, T.F16, T.BF16, T.Q8_0, T.Q4_1)]
    write_json("quantize.json.gz", cases)


def main():
    rng = np.random.default_rng(20)
    cases = []
    for kind in TYPES:
        data = blocks(rng, kind, 6)
        values = dequantize(data.reshape(1, -1), kind).astype("<f4").reshape(-1)
        cases.append({
            "type": kind.name, "number": int(kind),
            "blocks": text(data), "values": text(values),
        })
    write_json("dequantize.json.gz", cases)
    record_quantized()

    w = GGUFWriter(HERE / "small.gguf", "llama")
    for name, value in [("uint8", 250), ("int8", -3), ("uint16", 65000), ("int16", -300), ("uint32", 4000000000), ("int32", -70000),
                        ("float32", 0.5), ("uint64", 2**60), ("int64", -2**60), ("float64", 0.1), ("bool", True)]:
        getattr(w, "add_" + name)("test." + name, value)
    w.add_string("test.string", "größe")
    w.add_array("test.strings", ["a", "", "ß"])
    w.add_array("test.ints", [1, -2, 3])
    w.add_array("test.floats", [0.25, -1.5])
    w.add_array("test.bools", [True, False])
    w.add_tensor("matrix", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("half", np.array([1.5, -2], dtype=np.float16))
    w.add_tensor("q8", blocks(rng, T.Q8_0, 4).reshape(2, 68), raw_dtype=T.Q8_0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


main()
