"""Reads the event files of a directory with TensorBoard's own reader and prints scalars, texts and hyperparameters as JSON, by run.

    python read_tensorboard.py DIR > want.json

TestTensorBoardReadsTheFiles runs it with the Python that TRINITY_TENSORBOARD_PYTHON names (one that has the tensorboard package).
"""
import json
import os
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata

out = {}
for place, _, files in sorted(os.walk(sys.argv[1])):
    if not files:
        continue
    acc = event_accumulator.EventAccumulator(place, size_guidance={event_accumulator.SCALARS: 0, event_accumulator.TENSORS: 0})
    acc.Reload()
    run = {tag: [[e.step, repr(e.value), round(e.wall_time, 3)] for e in acc.Scalars(tag)] for tag in acc.Tags()["scalars"]}
    for tag in acc.Tags()["tensors"]:
        plugin = acc.SummaryMetadata(tag).plugin_data
        if plugin.plugin_name == "hparams":
            start = metadata.parse_session_start_info_plugin_data(plugin.content)
            values = {name: getattr(v, v.WhichOneof("kind")) for name, v in start.hparams.items()}
            run[tag] = [start.group_name, start.start_time_secs, values]
        else:
            run[tag] = [plugin.plugin_name] + [[e.step, e.tensor_proto.string_val[0].decode()] for e in acc.Tensors(tag)]
    out[os.path.relpath(place, sys.argv[1])] = run
json.dump(out, sys.stdout, indent=1, sort_keys=True)
print()
