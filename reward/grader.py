"""Calls grade(sample, item) of source.py, and writes the number that it returns."""

import json
import math
import os
import sys

out = os.fdopen(os.dup(1), "w", encoding="utf-8")  # programs that the grader starts do not inherit it
os.dup2(2, 1)  # what the grader and its programs print is no score
question = json.load(sys.stdin)
names = {"__name__": "grader"}
with open("source.py", encoding="utf-8") as f:
    exec(compile(f.read(), "source.py", "exec"), names)
score = float(names["grade"](question["sample"], question["item"]))
if not math.isfinite(score):
    raise ValueError("grade returned %r" % score)
json.dump(score, out)
