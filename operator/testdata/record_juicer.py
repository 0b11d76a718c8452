"""A table as the Data-Juicer service sends it back, made with Hugging Face datasets: python record_juicer.py > juicer.arrow

With an argument it reads a table that the operator has sent, and prints it as datasets sees it.
"""
import io
import sys

import pyarrow as pa
from datasets import Dataset

if len(sys.argv) > 1:
    with pa.ipc.open_stream(open(sys.argv[1], "rb")) as reader:
        table = Dataset(reader.read_all())
    print(table.features)
    for row in table.to_list():
        print(row)
    sys.exit()

rows = [
    {"eid": {"batch": 1, "task": t, "run": r, "step": 0, "suffix": str(2 * t + r)}, "tokens": [1, 2, 3], "prompt_length": 1, "logprobs": [-0.5, -1.0], "reward": reward,
     "prompt_text": "question", "response_text": "answer", "info": {"length": 2.0}}
    for t, r, reward in [(0, 0, 1.0), (0, 1, None), (1, 0, 0.5), (1, 1, 0.0)]
]
table = Dataset.from_list(rows)
stats = [{"llm_quality_score": 0.75, "llm_quality_record": {"rationale": "good"}}, {"llm_quality_score": 0.5, "llm_quality_record": None}, {"llm_quality_score": None, "llm_quality_record": None},
         {"llm_quality_score": 0.25, "llm_quality_record": {"rationale": "poor"}}]
table = table.map(lambda row, i: {"__dj__stats__": stats[i], "reward": None if row["reward"] is None else row["reward"] + i}, with_indices=True)
table = table.select([3, 0, 2]).flatten_indices()
out = io.BytesIO()
with pa.ipc.new_stream(out, table.data.table.schema) as writer:
    writer.write_table(table.data.table)
sys.stdout.buffer.write(out.getvalue())
