#!/usr/bin/env python3
"""Parquet files as ordinary tools write them, for tests/parquet.rs: what our own reader makes of other people's files.

    python3 -m venv venv && venv/bin/pip install pyarrow pandas duckdb
    cd crates/tables/tests/data && venv/bin/python make.py

Written with pyarrow 26.0.1, pandas 3.1.1 and duckdb 2.0.1; other versions write the same values in other bytes.
"""

import datetime as dt
import decimal
import uuid

import duckdb
import pandas
import pyarrow as pa
import pyarrow.parquet as pq

MOMENT = dt.datetime(2024, 3, 1, 12, 34, 56, 789123)
IDENTIFIER = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def three(kind, value, extreme):
    """A value, an extreme one, and null."""
    return pa.array([value, extreme, None], kind)


COLUMNS = {
    "id": pa.array(["a", "b", "c"]),
    "text": three(pa.large_string(), "\u00e9", ""),
    "dictionary": three(pa.string(), "x", "y").dictionary_encode(),
    "binary": three(pa.binary(), b"\x00\xff", b""),
    "fixed": three(pa.binary(4), b"\x00\x01\x02\x03", b"text"),
    "i8": three(pa.int8(), -3, -(2**7)),
    "i32": three(pa.int32(), -3, -(2**31)),
    "i64": three(pa.int64(), -3, -(2**63)),
    "u8": three(pa.uint8(), 3, 2**8 - 1),
    "u32": three(pa.uint32(), 3, 2**32 - 1),
    "u64": three(pa.uint64(), 3, 2**63 - 1),
    "half": three(pa.float16(), 1.5, -65504.0),
    "float": three(pa.float32(), 0.5, float("-inf")),
    "double": three(pa.float64(), -1.25, 1e300),
    "flag": three(pa.bool_(), True, False),
    "date": three(pa.date32(), MOMENT.date(), dt.date(1969, 12, 31)),
    "time": three(pa.time64("us"), MOMENT.time(), dt.time(0)),
    "milliseconds": three(pa.timestamp("ms"), MOMENT.replace(microsecond=789000), dt.datetime(1969, 12, 31)),
    "microseconds": three(pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=dt.timezone.utc), None),
    "nanoseconds": three(pa.timestamp("ns"), 1709296496789123456, -1),
    "price": three(pa.decimal128(9, 2), decimal.Decimal("12.50"), decimal.Decimal("-0.05")),
    "count": three(pa.decimal128(18, 0), decimal.Decimal(42), decimal.Decimal(-(10**17))),
    "long": three(pa.decimal256(70, 10), decimal.Decimal("0.0000000001"), decimal.Decimal(-(10**59))),
    "nothing": pa.nulls(3),
    "list": pa.array([[1], [], None], pa.list_(pa.int64())),
    "struct": pa.array([{"x": 1}, {"x": 2}, None], pa.struct([("x", pa.int64())])),
}

table = pa.table(COLUMNS)
pq.write_table(table, "pyarrow.parquet", compression="none")
for codec in ("snappy", "gzip", "zstd", "lz4", "brotli"):
    pq.write_table(table.select(["id", "text", "i64"]), f"{codec}.parquet", compression=codec)

instants = pa.array([MOMENT, dt.datetime(1900, 1, 1), None], pa.timestamp("us"))
pq.write_table(
    pa.table({"id": COLUMNS["id"], "instant": instants}), "int96.parquet", use_deprecated_int96_timestamps=True
)

# One value of ten is not UTF-8, and says what must not be told.
names = pa.array([f"u{number}" for number in range(10)])
texts = [f"value {number}".encode() for number in range(10)]
texts[7] = b"canary-\xff-canary"
texts = pa.Array.from_buffers(pa.string(), 10, pa.array(texts, pa.binary()).buffers())
pq.write_table(pa.table({"id": names, "text": texts}), "one-bad.parquet", compression="none")

frame = pandas.DataFrame(
    {
        "id": ["a", "b", "c"],
        "number": [1, 2, 3],
        "category": pandas.Categorical(["x", "y", None]),
        "when": pandas.to_datetime(["2024-03-01T12:34:56.789123456", None, "1969-12-31T00:00:00.0"]).as_unit("ns"),
        "whole": pandas.array([7, None, -7], dtype="Int64"),
        "none": [None, None, None],
    }
)
frame.to_parquet("pandas.parquet")

duckdb.sql(
    f"""COPY (SELECT * FROM (VALUES
        ('a', 12.50::DECIMAL(9, 2), 99999999999999999999999999999999999999::DECIMAL(38, 0), DATE '2024-03-01',
         TIMESTAMP_NS '2024-03-01 12:34:56.789123456', '{IDENTIFIER}'::UUID, 'x'::ENUM('x', 'y'), 7::UTINYINT),
        ('b', -0.05, -1, DATE '1969-12-31', NULL, NULL, 'y', 255)
    ) AS t(id, price, huge, day, instant, identifier, choice, small)) TO 'duckdb.parquet' (FORMAT parquet, COMPRESSION lz4_raw)"""
)
