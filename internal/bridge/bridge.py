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


class Told(Exception):
    """An error whose text says all that people need."""


questions = os.fdopen(os.dup(0), encoding="utf-8")
answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what libraries read is no question
os.dup2(2, 1)  # what they print is no answer


def give(answer):
    """Write an answer."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def serve(handlers):
    """Answer requests {"do": name, …} with handlers[name](request) until the input ends."""
    for line in questions:
        request = json.loads(line)
        try:
            answer = handlers[request.pop("do")](**request)
        except Told as e:
            answer = {"error": str(e)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        give(answer)
