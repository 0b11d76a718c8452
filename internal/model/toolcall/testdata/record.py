"""Writes references.json: Python literals as ast.literal_eval reads them, and values that python-jsonschema allows.

Usage: pip install jsonschema==4.26.0; python record.py
"""

import ast
import json
import pathlib
import random

import jsonschema

rng = random.Random(7)
SCALARS = ["None", "True", "False", "0", "-7", "12345678901234567890123", "2.5", "-1e3", "1e-7", "0x1f", "'a'", '"it\'s"', "'it\\'s'", "'\\d+'",
           "'\\n\\t\\\\'", "'<a> & b'", "'\u00e9\u6f22'", "'\\u00e9'", "'\\x41'", "r'\\d'", "'''a\n'b'''", '""', "'[1, (2)]'", "'a' 'b'"]


def literal(depth):
    kind = rng.choice("slltd") if depth else "s"
    if kind == "s":
        return rng.choice(SCALARS[:-1])
    parts = [literal(depth - 1) for _ in range(rng.randrange(4))]
    if kind == "l":
        return "[" + ", ".join(parts) + rng.choice(["", ","] if parts else [""]) + "]"
    if kind == "t":
        return "(" + "".join(p + ", " for p in parts) + ")"
    keys = rng.sample(["'a'", "'b c'", "1", "None", "2.5", "\"d'\""], len(parts))
    return "{" + ", ".join("%s: %s" % pair for pair in zip(keys, parts)) + "}"


def schema(depth):
    kind = rng.choice(["type", "types", "enum", "const", "allOf", "anyOf", "$ref", "none"]) if depth else rng.choice(["type", "enum", "const"])
    if kind == "type":
        return {"type": rng.choice(TYPES)}
    if kind == "types":
        return {"type": rng.sample(TYPES, 2)}
    if kind == "enum":
        return {"enum": rng.sample(VALUES, 3)}
    if kind == "const":
        return {"const": rng.choice(VALUES)}
    if kind == "$ref":
        return {"$ref": "#/$defs/" + rng.choice(["text", "either", "a~1b"])}
    if kind == "none":
        return {"description": "x"}
    return {kind: [schema(depth - 1) for _ in range(2)]}


TYPES = ["string", "integer", "number", "boolean", "array", "object", "null"]
VALUES = [None, True, False, 0, 1, 2.5, 3.0, "", "1", "true", [], [1], {}, {"a": "b"}]
DEFS = {"text": {"type": "string"}, "either": {"anyOf": [{"$ref": "#/$defs/text"}, {"type": "null"}]}, "a/b": {"enum": [1, "1"]}}

literals = {}
while len(literals) < 120:
    text = literal(3)
    if text[0] in "[({":
        literals[text] = json.loads(json.dumps(ast.literal_eval(text)))
schemas = []
for _ in range(150):
    of = schema(2)
    allowed = [jsonschema.Draft202012Validator({**of, "$defs": DEFS}).is_valid(v) for v in VALUES]
    schemas.append({"schema": of, "allowed": allowed})
out = {"literals": [[k, v] for k, v in literals.items()], "defs": DEFS, "values": VALUES, "schemas": schemas}
pathlib.Path(__file__).with_name("references.json").write_text(json.dumps(out, ensure_ascii=False) + "\n", encoding="utf-8")
