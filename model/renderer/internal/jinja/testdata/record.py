"""Records the output of Python's Jinja2, in the environment that transformers builds, for the templates and snippets here.

python3 record.py writes golden.json.gz: for every template of templates/ and every context of contexts.json, and for every
snippet of snippets.json with the context numbered SNIPPET_CONTEXT, and for RANDOM templates of grammar.py with its CONTEXT, either {"text", "generations"} (character offsets) or
{"error"}: the name of Python's exception, a colon, its message.
"""
import datetime
import glob
import gzip
import json
import os

import grammar
from transformers.utils import chat_template_utils as utils

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2026, 11, 5, 14, 7, 9)
SNIPPET_CONTEXT = 1
RANDOM = 1500  # random templates of grammar.py


def render(source, context):
    try:
        template = utils._compile_jinja_template(source)
        template.environment.globals["strftime_now"] = NOW.strftime
        blocks, generations = [], []
        with template.environment.activate_tracker(blocks, generations):
            for block in template.generate(**json.loads(json.dumps(context))):
                blocks.append(block)
        text = "".join(blocks)
        text.encode()
        return {"text": text, "generations": generations}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def load(name):
    with open(os.path.join(HERE, name)) as f:
        return json.load(f)


contexts, snippets = load("contexts.json"), load("snippets.json")
golden = {"templates": {}, "snippets": [], "random": []}
for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))):
    with open(path) as f:
        source = f.read()
    golden["templates"][os.path.basename(path)] = [render(source, c) for c in contexts]
for source in snippets:
    golden["snippets"].append(render(source, contexts[SNIPPET_CONTEXT]))
golden["random_context"] = grammar.CONTEXT
for seed in range(RANDOM):
    source = grammar.Grammar(seed).template()
    golden["random"].append({"source": source, **render(source, grammar.CONTEXT)})
with gzip.GzipFile(os.path.join(HERE, "golden.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(golden, ensure_ascii=False, indent=0).encode())
errors = sum("error" in r for rs in golden["templates"].values() for r in rs), sum("error" in r for r in golden["snippets"])
print(len(snippets), "snippets;", len(golden["templates"]), "templates;", "errors:", errors)
