"""What the programs share: the tool, the question, and the reward that ends a rollout."""

import json
import os
import sys
import urllib.request

STREAM = sys.argv[1:] == ["stream"]
SYSTEM = "Add numbers with the tool."
QUESTION = "What is 20 + 22?"
PARAMETERS = {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"], "additionalProperties": False,
}  # fmt: skip


def add(a: int, b: int) -> int:
    """Adds two numbers.

    Args:
        a: the first number
        b: the second number
    """
    return a + b


def finish(answer):
    """Posts reward 1 if the answer is right."""
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/reward", json.dumps({"value": float("42" in answer)}).encode())
    urllib.request.urlopen(request).read()
