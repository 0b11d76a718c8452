"""Writes the Parquet files of the tests with pyarrow 21 or newer, and beside each what its rows are, by pyarrow's own reader.

    python record_parquet.py        (in a directory that becomes dataset/testdata)
"""
import datetime as dt
import decimal
import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq


def plain(v):
    """A value as the Go reader gives it."""
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return [plain(x) for x in v]
    if isinstance(v, dt.datetime):
        text = v.strftime("%Y-%m-%dT%H:%M:%S")
        if v.microsecond:
            text += ("%06d" % v.microsecond).rstrip("0").join([".", ""])
        return text + "Z"
    if isinstance(v, dt.date):
        return v.isoformat()
    if isinstance(v, dt.time):
        text = v.strftime("%H:%M:%S")
        return text + ("." + ("%06d" % v.microsecond).rstrip("0") if v.microsecond else "")
    if isinstance(v, decimal.Decimal):
        return float(v)
    if isinstance(v, uuid.UUID):
        return str(v)
    if isinstance(v, bytes):
        try:
            return v.decode()
        except UnicodeDecodeError:
            import base64
            return base64.b64encode(v).decode()
    return v


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
        json.dump(got, f, indent=0, sort_keys=True)


write("types_snappy_v1", table)
write("types_zstd_v2", table, compression="zstd", data_page_version="2.0", row_group_size=2)
write("types_gzip_plain", table, compression="gzip", use_dictionary=False, store_schema=False)
many = pa.table({"i": list(range(500)), "text": [str(i % 37) * (i % 11) for i in range(500)]})
write("many_groups", many, row_group_size=120, data_page_size=512)
