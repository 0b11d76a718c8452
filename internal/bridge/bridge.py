"""The other side of a bridge to Python: one JSON object a line in, one out."""
import json
import os
import sys


def plain(value):
    """Return a value in JSON's types; floats keep five digits."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if value is None or isinstance(value, (str, int)):
        return value
    return str(value)


def serve(handlers):
    """Answer requests {"do": name, …} with handlers[name](request) until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
