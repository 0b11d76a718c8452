"""Records which rows Hugging Face datasets 5.2 reads of directories by what their README.md declares. Every row names its file.

    python record_cards.py        (in internal/dataset/testdata; writes cards.json)
"""
import json
import os
import tempfile

import datasets

datasets.disable_progress_bars()
cases = []


def case(files, card, *asked):
    """Asks for (subset, split) pairs of a directory of files, of which each holds its name."""
    d = tempfile.mkdtemp()
    for f in files:
        p = os.path.join(d, f)
        os.makedirs(os.path.dirname(p), exist_ok=True)
        with open(p, "w") as out:
            out.write("file\n%s\n" % f if f.endswith(".csv") else json.dumps({"file": f}) + "\n")
    if card:
        with open(os.path.join(d, "README.md"), "w") as out:
            out.write(card)
    for subset, split in asked:
        try:
            rows = list(datasets.load_dataset(d, subset or None, split=split, cache_dir=tempfile.mkdtemp())["file"])
        except Exception as e:
            print("%s: %s" % (type(e).__name__, str(e)[:150].replace("\n", " ")))
            rows = None
        cases.append({"files": files, "card": card, "subset": subset, "split": split, "rows": rows})


def configs(text):
    return "---\nlicense: mit\nconfigs:\n" + text + "---\n# A dataset\n"


two = ["a/x.jsonl", "a/y.jsonl", "b/x.jsonl", "b/deep/z.jsonl", "c.jsonl", "d.txt"]
case(two, configs("- config_name: first\n  data_files: a/x.jsonl\n- config_name: second\n  data_files:\n  - b/*.jsonl\n  - c.jsonl\n"),
     ("first", "train"), ("second", "train"), ("", "train"), ("third", "train"), ("first", "test"))
case(two, configs("- config_name: first\n  data_files: a/*\n  default: true\n- config_name: second\n  data_files: b/**\n"), ("", "train"), ("second", "train"))
case(two, configs("- config_name: default\n  data_files: a/*\n- config_name: second\n  data_files: c.jsonl\n"), ("", "train"), ("default", "train"), ("second", "train"))
case(two, configs("- config_name: first\n  data_files: a/*\n  default: true\n- config_name: second\n  data_files: b/*\n  default: true\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files:\n  - split: train\n    path: a/x.jsonl\n  - split: held_out\n    path:\n    - c.jsonl\n    - 'b/**/*.jsonl'\n"),
     ("", "train"), ("only", "held_out"), ("only", "test"))
case(two, configs("- config_name: only\n  data_files:\n  - c.jsonl\n  - '**/*.jsonl'\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files: a/none.jsonl\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files: a/n*.jsonl\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files: '**.jsonl'\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files:\n  - split: a-b\n    path: c.jsonl\n"), ("", "train"))
case(two, configs("- config_name: only\n  data_files:\n  - split: train\n    path: c.jsonl\n  - split: train\n    path: a/*\n"), ("", "train"))
case(two, configs("- data_files: c.jsonl\n"), ("", "train"))
case(two, configs("  only: c.jsonl\n"), ("", "train"))
case(two, "---\nlicense: [mit\n---\n", ("", "train"))
flat = ["x.jsonl", "y.jsonl"]
case(flat, "---\nlicense: mit\n---\n", ("", "train"), ("default", "train"))
case(flat, "# A dataset\n\n---\nconfigs:\n- config_name: only\n  data_files: y.jsonl\n---\n", ("", "train"))
case(two, configs("- config_name: only\n  data_files: c.jsonl\n").replace("\n", "\r\n"), ("", "train"))
case(["en/train.jsonl", "en/test.jsonl", "fr/train-0.jsonl", "fr/train-1.jsonl"], configs("- config_name: en\n  data_dir: en\n- config_name: fr\n  data_dir: fr/\n"),
     ("en", "train"), ("en", "test"), ("fr", "train"), ("fr", "test"), ("", "train"))
case(["x10.jsonl", "x2.jsonl", "x1.jsonl", "y1.jsonl", "x-.jsonl", "x].jsonl"],
     configs("- config_name: set\n  data_files: x[0-9]*.jsonl\n- config_name: not\n  data_files: x[!12].jsonl\n- config_name: one\n  data_files: '?1.jsonl'\n- config_name: odd\n  data_files: x[]-].jsonl\n- config_name: upper\n  data_files: X1*.jsonl\n"),
     ("set", "train"), ("not", "train"), ("one", "train"), ("odd", "train"), ("upper", "train"))
case(["data/train-00000-of-00002.csv", "data/train-00001-of-00002.csv", "data/test-00000-of-00001.csv", "extra/train.csv"],
     configs("- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path: data/test-*\n"), ("", "train"), ("", "test"))
case(["a/x.jsonl", "a-b/x.jsonl", "a.b/x.jsonl", "a/b/x.jsonl"], configs("- config_name: only\n  data_files: '**'\n"), ("", "train"))

with open("cards.json", "w") as out:
    json.dump(cases, out, indent=1)
    out.write("\n")
