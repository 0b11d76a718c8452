"""Writes the rows of a Parquet file of the tests as Arrow IPC files with pyarrow 21 or newer: as a stream, and as a file in batches of two rows with LZ4.

    python record_arrow.py        (in internal/dataset/testdata, after record_parquet.py)
"""
import pyarrow as pa
import pyarrow.parquet as pq

table = pq.read_table("types_zstd_v2.parquet")
with pa.ipc.new_stream("stream.arrow", table.schema) as out:
    out.write_table(table)
with pa.ipc.new_file("file_lz4.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as out:
    out.write_table(table, max_chunksize=2)
print(table.schema)
