"""Measures of texts, from the definitions in the operators' descriptions: python record.py > measures.json"""
import json
import math
import string
from collections import Counter

TEXTS = [
    "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May.",
    "ha ha ha ha ha ha ha ha ha ha ha ha",
    "abcabcabcabcabcabcabc",
    "one line\nand another one\n\nthe last",
    "a\tb  c\n(d) -- e!",
    "The cat sat. The cat sat. The dog ran. the CAT sat.",
    "12345 67890 !!! ???",
    "x",
    "",
]


def words(text):
    for c in "\n\t":
        text = text.replace(c, " ")
    out = [w.strip(string.punctuation + string.digits + string.whitespace) for w in text.split(" ")]
    return [w for w in out if w]


def char_rep(text, n):
    runs = Counter(text[i : i + n] for i in range(len(text) - n + 1))
    again = sorted((k for k in runs.values() if k > 1), reverse=True)
    total = sum(runs.values())
    return sum(again[: int(math.sqrt(len(runs)))]) / total if total else 0.0


def word_rep(text, n):
    w = [x for x in words(text.lower())]
    runs = Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1))
    total = sum(runs.values())
    return sum(k for k in runs.values() if k > 1) / total if total else 0.0


def share(text, is_it):
    return sum(map(is_it, text)) / len(text) if text else 0.0


SPECIAL = set(string.punctuation + string.digits + string.whitespace)
print(json.dumps([
    {
        "text": t,
        "text_len": len(t),
        "num_words": len(words(t)),
        "char_rep_ratio": char_rep(t, 3),
        "word_rep_ratio": word_rep(t, 2),
        "special_char_ratio": share(t, lambda c: c in SPECIAL),
        "alnum_ratio": share(t, str.isalnum),
        "avg_line_length": len(t) / max(1, len(t.splitlines())),
        "max_line_length": max(map(len, t.splitlines()), default=0),
    }
    for t in TEXTS
], indent=1))
