"""Writes the Parquet files of the tests with pyarrow 21 or newer, and beside each what its rows are, by pyarrow's own reader.

    python record_parquet.py        (in a directory that becomes internal/dataset/testdata)

Numbers have the digits that pyarrow gives: decimals all of theirs, whole floats none after the point.
"""
import datetime as dt
import decimal
import json
import re
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def plain(v):
    """A value as the Go reader gives it."""
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dt.datetime):
        text = v.replace(microsecond=0, tzinfo=None).isoformat()
        if v.microsecond:
            text += ("%06d" % v.microsecond).rstrip("0").join([".", ""])
        return text + "Z"
    if isinstance(v, dt.date):
        return v.isoformat()
    if isinstance(v, dt.time):
        text = v.strftime("%H:%M:%S")
        return text + ("." + ("%06d" % v.microsecond).rstrip("0") if v.microsecond else "")
    if isinstance(v, decimal.Decimal):
        return "digits:" + format(v, "f")  # a number once written, see digits
    if isinstance(v, float) and v.is_integer() and abs(v) < 2**53 and str(v) != "-0.0":
        return int(v)
    if isinstance(v, float):  # as JSON in Go
        text = format(decimal.Decimal(repr(v)), "f") if 1e-6 <= abs(v) < 1e21 or v == 0 else re.sub("e-0", "e-", repr(v))
        return "digits:" + ("-0" if text == "-0.0" else text.removesuffix(".0"))
    if isinstance(v, uuid.UUID):
        return str(v)
    if isinstance(v, bytes):
        try:
            return v.decode()
        except UnicodeDecodeError:
            import base64
            return base64.b64encode(v).decode()
    return v


def digits(text):
    """JSON in which the texts of plain that are numbers are numbers."""
    return re.sub('"digits:([^"]*)"', r"\1", text)


message = pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string())])
schema = pa.schema([
    ("question", pa.string()), ("n", pa.int32()), ("big", pa.int64()), ("u", pa.uint64()), ("rate", pa.float64()), ("half", pa.float32()), ("ok", pa.bool_()),
    ("messages", pa.list_(message)), ("grid", pa.list_(pa.list_(pa.int64()))),
    ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
    ("scores", pa.map_(pa.string(), pa.float64())), ("large", pa.large_list(pa.large_string())), ("words", pa.dictionary(pa.int32(), pa.string())),
    ("us", pa.timestamp("us")), ("ms", pa.timestamp("ms", tz="UTC")), ("ns", pa.timestamp("ns")), ("day", pa.date32()), ("clock", pa.time64("us")),
    ("price", pa.decimal128(9, 2)), ("wide", pa.decimal128(30, 3)), ("raw", pa.binary()), ("fixed", pa.binary(3)),
])
when = dt.datetime(2024, 2, 29, 12, 34, 56, 789000)
rows = [
    dict(question="What is 1+1? é", n=2, big=2**62 + 1, u=2**63 - 1, rate=0.25, half=0.5, ok=True,
         messages=[dict(role="user", content="hi", name=None), dict(role="assistant", content="", name="x")], grid=[[1, 2], [], [3]],
         reward_model=dict(ground_truth="2", style="rule"), scores=[("a", 1.5), ("b", 2.0)], large=["x", "yz"], words="red",
         us=when, ms=when, ns=when, day=dt.date(1969, 12, 31), clock=dt.time(1, 2, 3, 4), price=decimal.Decimal("-12.34"),
         wide=decimal.Decimal("12345.678"), raw=b"text", fixed=b"abc"),
    {f.name: None for f in schema},
    dict(question="", n=-1, big=-(2**62), u=0, rate=3.0, half=-1.5, ok=False, messages=[], grid=[], reward_model=dict(ground_truth=None, style=None),
         scores=[], large=[], words="blue", us=dt.datetime(1900, 1, 1), ms=dt.datetime(1970, 1, 1), ns=when, day=dt.date(2100, 1, 1),
         clock=dt.time(23, 59), price=decimal.Decimal("0.00"), wide=decimal.Decimal("-0.001"), raw=b"\xff\x00", fixed=b"\x00\x01\x02"),
    dict(question="null inside", n=7, big=0, u=1, rate=-0.1, half=2.0, ok=True, messages=[None, dict(role=None, content="c", name=None)],
         grid=[None, [None, 4]], reward_model=None, scores=[("k", None)], large=[None, ""], words=None, us=None, ms=None, ns=None, day=None, clock=None,
         price=None, wide=None, raw=b"", fixed=None),
]
table = pa.Table.from_pylist(rows, schema=schema)


def write(name, table, **options):
    pq.write_table(table, name + ".parquet", **options)
    got = []
    for row in pq.read_table(name + ".parquet").to_pylist(maps_as_pydicts="strict"):
        got.append(plain(row))
    with open(name + ".want.json", "w") as f:
        f.write(digits(json.dumps(got, indent=0, sort_keys=True)))


write("types_snappy_v1", table)
write("types_zstd_v2", table, compression="zstd", data_page_version="2.0", row_group_size=2)
write("types_gzip_plain", table, compression="gzip", use_dictionary=False, store_schema=False)
many = pa.table({"i": list(range(500)), "text": [str(i % 37) * (i % 11) for i in range(500)]})
write("many_groups", many, row_group_size=120, data_page_size=512)

D = decimal.Decimal
dates = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)]
times = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59), None, dt.datetime(2024, 2, 29, 1, 2, 3), dt.datetime(9999, 12, 31)]
wide = [D("12345678901234567890123456789012345678"), D(-1), D(0), None, D("9" * 38)]
halves = pa.array(np.array([0.5, 1.5, -2.25, 6e-8, 65504], np.float16))
columns = {
    "half": halves, "halves": pa.array([[np.float16(0.5)], [], None, [np.float16(1)], [None]], pa.list_(pa.float16())),
    "halfs": pa.array([{"x": v} for v in halves.to_numpy()], pa.struct([("x", pa.float16())])),
    "float": pa.array([0.1, 1e-7, 3.4e38, -0.0, 16777216], pa.float32()), "double": pa.array([0.1, 1e-7, 1e300, 1e20, 5e-324], pa.float64()),
    "u64": pa.array([2**64 - 1, 2**63, 0, 1, 2**63 - 1], pa.uint64()), "u32": pa.array([2**32 - 1, 0, 1, 2, 3], pa.uint32()),
    "u8": pa.array([255, 0, 1, 2, 3], pa.uint8()), "i8": pa.array([-128, 0, 1, 2, 127], pa.int8()),
    "i64": pa.array([-(2**63), 0, 1, 2**53 + 1, 2**63 - 1], pa.int64()),
    "d38": pa.array(wide, pa.decimal128(38, 0)), "d76": pa.array(wide[:4] + [D(10) ** 75], pa.decimal256(76, 0)),
    "d38_10": pa.array([D("1234567890123456789012345678.0123456789"), D("-1.5"), D(0), None, D("0.0000000001")], pa.decimal128(38, 10)),
    "d38_38": pa.array([D("0.12345678901234567890123456789012345678"), D("-0.5"), D(0), None, D("1E-38")], pa.decimal128(38, 38)),
    "d5_2": pa.array([D("123.45"), D("-0.01"), D(0), None, D(1)], pa.decimal128(5, 2)),
    "d32": pa.array([D("1.5"), D("-0.01"), D(0), None, D(1)], pa.decimal32(5, 2)),
    "d64": pa.array([D("1.5"), D("-0.01"), D(0), None, D(1)], pa.decimal64(15, 2)),
    "prices": pa.array([D("1.10"), D("2.20"), None, D("1.10"), D("1.10")]).dictionary_encode(),
    "date32": pa.array(dates, pa.date32()), "date64": pa.array(dates, pa.date64()),
    "s": pa.array(times, pa.timestamp("s")), "ms": pa.array(times, pa.timestamp("ms")), "us": pa.array(times, pa.timestamp("us")),
    "zone": pa.array(times[:4] + [times[3]], pa.timestamp("us", "UTC")), "t32": pa.array([0, 1, None, 2, 86399999], pa.time32("ms")),
    "t64": pa.array([0, 1, None, 2, 86399999999], pa.time64("us")), "binary": pa.array([b"a", b"\xff", None, b"", b"\x00"], pa.large_binary()),
    "fixed": pa.array([b"abc", b"\xff\x00\x01", None, b"   ", b"\x00\x00\x00"], pa.binary(3)),
    "pairs": pa.array([[1, 2], None, [3, 4], [None, 5], [6, 7]], pa.list_(pa.int32(), 2)),
    "deep": pa.array([{"a": [{"b": [1, 2]}]}, None, {"a": None}, {"a": []}, {"a": [None, {"b": None}]}],
                     pa.struct([("a", pa.list_(pa.struct([("b", pa.list_(pa.int8()))])))])),
    "none": pa.nulls(5), "id": pa.array([uuid.UUID(int=i << 64).bytes for i in range(5)], pa.uuid()),
}
every = pa.table(columns)
write("numbers", every)
with pa.ipc.new_file("numbers.arrow", every.schema) as out:
    out.write_table(every)
