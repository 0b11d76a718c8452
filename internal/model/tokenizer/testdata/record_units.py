#!/usr/bin/env python3
"""Records single parts of the Hugging Face tokenizers library in units.json: what Split makes of its behaviours, and CRC-32 values
over all code points of the classes that patterns see and of the normalizers.

    python record_units.py
"""
import json
import zlib
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]


def splits():
    out = []
    for text in ["a--b-c--", "--a", "-", "abc", "-a-", "a1b22c  d"]:
        for kind, pattern in ("String", "-"), ("String", "--"), ("Regex", "-+"), ("Regex", r"[0-9]|\s+(?!\S)|\s+"), ("Regex", r"(?<=[a-z])(?=-)|b"), ("Regex", "-*"):
            for behavior in "removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous":
                for invert in False, True:
                    split = pre_tokenizers.Split(Regex(pattern) if kind == "Regex" else pattern, behavior, invert)
                    pieces = [p for p, _ in split.pre_tokenize_str(text)]
                    name = "".join(w.capitalize() for w in behavior.split("_"))
                    out.append({"text": text, kind: pattern, "behavior": name, "invert": invert, "pieces": pieces})
    return out


def members(pattern):
    """The code points that the pattern, a class, matches."""
    split, found = pre_tokenizers.Split(Regex(pattern), "removed", True), set()
    for i in range(0, len(CODE_POINTS), 4096):
        block = CODE_POINTS[i : i + 4096]
        for _, (start, stop) in split.pre_tokenize_str("".join(map(chr, block))):
            found.update(block[start:stop])
    return found


def numeric():
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {c for c in CODE_POINTS if len(digits.pre_tokenize_str(f"a{chr(c)}a")) == 3}


def word():
    tk = Tokenizer(models.BPE())
    tk.add_tokens([AddedToken("=", single_word=True)])
    return {c for c in CODE_POINTS if not tk.encode(chr(c) + "=").ids}


def crc_of(found):
    return zlib.crc32(bytes(c in found for c in CODE_POINTS))


def crc_normalized(normalizer):
    return zlib.crc32("".join(normalizer.normalize_str(chr(c)) + "\0" for c in CODE_POINTS).encode())


units = {
    "splits": splits(),
    "classes": {name: crc_of(members(rf"\p{{{name}}}")) for name in ("L", "N", "M", "Lu", "Ll", "Lt", "Lm", "Lo", "P")}
    | {"space": crc_of(members(r"\s")), "numeric": crc_of(numeric()), "word": crc_of(word())},
    "normalizers": {name: crc_normalized(getattr(normalizers, name)()) for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")},
}
Path(__file__).with_name("units.json").write_text(json.dumps(units, ensure_ascii=False, indent=None, separators=(",", ":")).replace("},{", "},\n{") + "\n")
