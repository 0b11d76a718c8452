"""Reads the event files of a directory with TensorBoard's own reader and prints its scalars as JSON: {role: {tag: [[step, value], ...]}}.

    python read_tensorboard.py DIR > want.json

TestTensorBoardReadsTheFiles runs it with the Python that TRINITY_TENSORBOARD_PYTHON names (one that has the tensorboard package).
"""
import json
import os
import sys

from tensorboard.backend.event_processing import event_accumulator

out = {}
for role in sorted(os.listdir(sys.argv[1])):
    acc = event_accumulator.EventAccumulator(os.path.join(sys.argv[1], role), size_guidance={event_accumulator.SCALARS: 0})
    acc.Reload()
    out[role] = {tag: [[e.step, repr(e.value), round(e.wall_time, 3)] for e in acc.Scalars(tag)] for tag in acc.Tags()["scalars"]}
json.dump(out, sys.stdout, indent=1, sort_keys=True)
