"""Writes json-schema-test-suite.jsonl.gz from a checkout of github.com/json-schema-org/JSON-Schema-Test-Suite.

Usage: python json_schema_test_suite.py CHECKOUT. The file is of commit 44401e0c046704b476ec9d2e2fccdaee618f259d
(MIT, see json-schema-test-suite.LICENSE). Schemas of drafts 4 to 7 get the $schema that their folder implies.
"""

import gzip
import io
import json
import pathlib
import sys

DRAFTS = {"draft4": "draft-04", "draft6": "draft-06", "draft7": "draft-07", "draft2019-09": "", "draft2020-12": ""}

tests = pathlib.Path(sys.argv[1]) / "tests"
lines = []
for draft, name in DRAFTS.items():
    for path in sorted((tests / draft).rglob("*.json"), key=str):
        for group in json.loads(path.read_text()):
            schema = group["schema"]
            if name and isinstance(schema, dict) and "$schema" not in schema:
                schema = {"$schema": f"http://json-schema.org/{name}/schema#", **schema}
            cases = [[t["description"], t["valid"], t["data"]] for t in group["tests"]]
            file = str(path.relative_to(tests))[: -len(".json")]
            lines.append({"file": file, "group": group["description"], "schema": schema, "tests": cases})
packed = io.BytesIO()
with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9, mtime=0, filename="") as out:
    out.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode())
pathlib.Path(__file__).with_name("json-schema-test-suite.jsonl.gz").write_bytes(packed.getvalue())
