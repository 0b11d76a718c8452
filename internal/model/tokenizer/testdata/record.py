#!/usr/bin/env python3
"""Trains small vocabularies, writes them with each family's real settings, and records what the Hugging Face tokenizers
library makes of texts.bin.gz.

    python record.py CORPUS...        (UTF-8 text files to train on; the vocabularies shipped here saw this project's notes)

Per family: FAMILY.json.gz is tokenizer.json, FAMILY.ref.gz holds little-endian CRC-32 values, for each text two (ids; decoded
text), then one for each of 500 sequences of pseudo-random ids (decoded text). Keep the vocabularies to record anew: `--keep`.
"""
import gzip
import json
import random
import struct
import sys
import zlib
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

HERE = Path(__file__).parent

BASE = [
    "Hello, world!", "I'm sure they'll've gone; it's 'S 'RE we'Re", "x = 12345678 + 3.14159", "  leading", "trailing   ",
    "a\n\n\nb\r\n\r\nc", "\t\tfoo(bar)\n", "", " ", "   ", "\n", "\u00a0nbsp\u00a0\u3000ideo", "cafe\u0301 re\u0301sume\u0301 \u1e9b\u0323",
    "你好，世界！今天天气很好。", "Привет мир", "مرحبا بالعالم ١٢٣٤", "こんにちは世界ｶﾞ", "한국어 테스트 \u1112\u1161\u11ab",
    "👩‍👩‍👧‍👦🏳️‍🌈 emoji 👍🏽", "½ ² Ⅷ ௧", "'\u017f long s 'ſt", "\\frac{1}{2} $x^2$", "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
    "<tool_call>\n{\"name\": \"f\"}\n</tool_call>", "<|im_start|><|im_start|>x", "<|im_sta", "\ufeffBOM", "\u0000nul\u0001",
    "a\u0085b\u2028c\u2029d", "zero\u200bwidth", "Ⅻ\u0301", "\U0010ffff\ue000", "def f(x):\n    return x  # ok\n\n\n",
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>", "<think>\nstep\n</think>\n\n42", "1234567890123",
    "...!!!???", "http://a.b/c?d=e&f=g#h", "_under_score__x", "'tis 'twas", "A'b'c's", "<s>hi</s> there <start_of_turn>user\nx<end_of_turn>",
    "  <mask>  x<mask>y <mask>\t\n", "wordtok tok xtok tok1 tok-tok toké tok", " <s> </s><s>", "<unk>", "▁▁ a▁b", "Z" + "\u0301" * 40 + "\u0323" * 3 + "y",
    "e\u0315\u0300\u05ae\u0301b", "İstanbul ΣΑΣ ǅ", "\u1c89\u1c8a \U000105c0 \U00013460\U0001345f \U00010d40 \U0001e5f1x \u0897", "\ufb01 ﬀ ㎏ ㋿ \uab69 \U0001fbf3",
    "a" * 70, "=" * 200, " " * 100 + "x", "\n" * 60 + " x", "ab" * 60 + " 1" * 40, "don't DON'T don'T", "\u2019s it’s", "caféé \t\n\t\n", "x'", "'", "''s", "' s", " 's",
    "<|END|> <|end|><|eNd|>", "\U00011de0\U00016ff5 1\U00011de1", "　全角１２３　", "a\u200d\u0301b", "ﷺ",
]
BYTES = [b"\xff", b"a\xffb", b"\xe4\xbd", b"\xe4\xbd\xe4\xbd\xa0", b"\xf0\x9f\x91", b"\xf0\x9f\x91a", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x80\x80 ok \xc3", b"\xf0\x80\x80\x80", b"\xe0\x80", b"\xf4\x90\x80\x80x"]
POOL = (
    list("abcdefghijklmnopqrstuvwxyzABCDEFGS0123456789    \n\n\r\t'.,!?_-<>|{}()$\\^/\"") + list("éèüñçßſKÅİ") + list("你好世界中文") + list("приветЖ")
    + list("ابجد١٢") + list("こカ゛") + list("한글") + list("👍🏽🎉") + list("\u0301\u0323\u00a0\u3000\u2003\u0085\u2028\u200b\u200d\ufeff▁")
    + ["'s", "'re", "'LL", "'ſ", "  ", "   ", "<|im_start|>", "<|im_end|>", "</think>", "<s>", "<mask>", "tok", "<|eot_id|>", "½", "Ⅷ", "ﬁ", "the ", " of", "return", "self.", "ing"]
)


def texts():
    corpus = Path(__file__).read_text()
    rng = random.Random(20261121)
    out = [t.encode() for t in BASE] + BYTES
    for _ in range(3800):
        out.append("".join(rng.choice(POOL) for _ in range(1 + rng.randrange(40))).encode())
    for _ in range(200):  # bytes of all kinds
        out.append(bytes(rng.randrange(256) for _ in range(rng.randrange(12))) + rng.choice(POOL).encode()[:2] + b" x")
    for _ in range(100):  # any code point
        out.append("".join(chr(c) for c in (rng.randrange(0x30000) for _ in range(8)) if not 0xD800 <= c < 0xE000).encode())
    for _ in range(120):
        at = rng.randrange(len(corpus) - 1500)
        out.append(corpus[at : at + rng.randrange(1500)].encode())
    return out


CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
CL100K = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTIONS + "?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def template(before, after=()):
    def special(name):
        return {"SpecialToken": {"id": name, "type_id": 0}}

    def text(name):
        return {"Sequence": {"id": name, "type_id": 0}}

    single = [special(n) for n, _ in before] + [text("A")] + [special(n) for n, _ in after]
    tokens = {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in [*before, *after]}
    return {"type": "TemplateProcessing", "single": single, "pair": [*single, text("B")], "special_tokens": tokens}


def added(first, *tokens):
    """tokens: content, or (content, flag, ...) with flags among normal, normalized, lstrip, rstrip, single_word"""
    out = []
    for i, t in enumerate(tokens):
        content, *flags = (t,) if isinstance(t, str) else t
        entry = {"id": first + i, "content": content}
        entry |= {f: f in flags for f in ("single_word", "lstrip", "rstrip", "normalized")}
        out.append(entry | {"special": "normal" not in flags})
    return out


def train_byte_level(corpus):
    tk = Tokenizer(models.BPE())
    tk.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=3000, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tk.train_from_iterator(corpus, trainer)
    model = json.loads(tk.to_str())["model"]
    return model["vocab"], model["merges"]


def train_sentencepiece(corpus):
    tk = Tokenizer(models.BPE())
    tk.pre_tokenizer = pre_tokenizers.Metaspace()
    tk.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=2500, limit_alphabet=150, show_progress=False))
    model = json.loads(tk.to_str())["model"]
    vocab = {}
    for token in ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + list(model["vocab"]):
        vocab.setdefault(token, len(vocab))
    return vocab, model["merges"]


def families(corpus):
    vocab, merges = train_byte_level(corpus)
    n = len(vocab)
    spaced = [" ".join(m) for m in merges]
    no_space, closing = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}, byte_level(True)

    def model(merges, **keys):
        plain = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix="", end_of_word_suffix="", fuse_unk=False, byte_fallback=False, ignore_merges=False)
        return plain | {"vocab": vocab, "merges": merges} | keys

    def file(model, tokens, normalizer, pre_tokenizer, post_processor, decoder):
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
                "pre_tokenizer": pre_tokenizer, "post_processor": post_processor, "decoder": decoder, "model": model}

    pure = byte_level(False, False)
    chatml = added(n, "<|endoftext|>", "<|im_start|>", "<|im_end|>", ("<tool_call>", "normal"), ("</tool_call>", "normal"), ("<think>", "normal"), ("</think>", "normal"))
    yield "gpt2", file(model(spaced), added(n, ("<|endoftext|>", "normalized"), ("<mask>", "normalized", "lstrip")), None, byte_level(), no_space, closing)
    yield "qwen2", file(model(merges), chatml, {"type": "NFC"}, sequence("pretokenizers", split(CL100K % ""), pure), pure, closing)
    llama3 = added(n, "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>")
    yield "llama3", file(model(spaced, ignore_merges=True), llama3, None, sequence("pretokenizers", split(CL100K % "{1,3}"), pure),
                         sequence("processors", no_space, template([("<|begin_of_text|>", n)])), closing)
    yield "smollm", file(model(spaced, vocab=vocab), added(n, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>"), None,
                         sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level()), None, closing)
    yield "o200k", file(model(merges), added(n, "<|endoftext|>"), None, sequence("pretokenizers", split(O200K, "Removed", True), pure), pure, closing)
    yield "falcon", file(model(spaced), added(n, "<|endoftext|>"), None,
                         sequence("pretokenizers", byte_level(True), {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")), None, closing)
    strange = added(n, ("<mask>", "lstrip", "rstrip"), ("tok", "single_word", "normal"), ("<|end|>", "normalized"), ("the of", "normalized", "normal"), ("éé", "normal"), ("naïve 世", "normal"), "  ")
    yield "added", file(model(merges), strange, sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False},
                        {"type": "Replace", "pattern": {"Regex": r"\p{Lo}{2,}"}, "content": "<o>"}), byte_level(True), template([("<mask>", n)], [("  ", n + 6)]), closing)

    vocab, merges = train_sentencepiece(corpus)
    n = len(vocab)
    base = added(0, "<unk>", "<s>", "</s>")
    sp = dict(unk_token="<unk>", fuse_unk=True, byte_fallback=True, continuing_subword_prefix=None, end_of_word_suffix=None, vocab=vocab)
    spaces, fuse, strip = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    to_mark = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    bytes_ = {"type": "ByteFallback"}
    yield "llama2", file(model(merges, **sp), base, sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, to_mark), None, template([("<s>", 1)]),
                         sequence("decoders", spaces, bytes_, fuse, strip))
    yield "mistral", file(model(merges, **sp), base + added(n, "[INST]", "[/INST]"), None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False},
                          template([("<s>", 1)], [("</s>", 2)]), sequence("decoders", spaces, bytes_, fuse, strip))
    yield "gemma", file(model(merges, **sp), base + added(n, "<start_of_turn>", "<end_of_turn>", ("\t\n", "normal"), ("<mask>", "normal")), to_mark,
                        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}, template([("<s>", 1)]), sequence("decoders", spaces, bytes_, fuse))
    few = {t: i for t, i in vocab.items() if not t.startswith("<0x")}
    few = {t: i for i, t in enumerate(few)}
    yield "metaspace", file(model(merges, **(sp | {"vocab": few, "byte_fallback": False, "fuse_unk": False})), base, {"type": "NFKD"},
                            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}, None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True})
    yield "undecoded", file(model(merges, **(sp | {"vocab": few, "byte_fallback": False})), base, None, split(r"\s+", "Contiguous"), None, None)


def crc_ids(ids):
    return zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))


def random_ids(size):
    """The same sequences as the test's: a 64-bit linear congruential generator, high bits."""
    state = 1
    for i in range(500):
        ids = []
        for _ in range(1 + i % 30):
            state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
            value = state >> 33
            ids.append(value // 4 % 300 if value % 4 else value // 4 % size)  # bytes more often than chance has it
        yield ids


def record(tk, data):
    out = []
    size = max(tk.get_vocab(with_added_tokens=True).values()) + 1
    for raw in data:
        text = raw.decode("utf-8", "replace")
        tk.encode_special_tokens = False
        framed = tk.encode(text).ids
        plain = tk.encode(text, add_special_tokens=False).ids
        tk.encode_special_tokens = True
        ordinary = tk.encode(text, add_special_tokens=False).ids
        both = tk.decode(framed, skip_special_tokens=False) + "\0" + tk.decode(framed, skip_special_tokens=True)
        out += [crc_ids(framed + [-1] + plain + [-1] + ordinary), zlib.crc32(both.encode())]
    for ids in random_ids(size):
        out.append(zlib.crc32(tk.decode(ids, skip_special_tokens=False).encode()))
    return struct.pack(f"<{len(out)}I", *out)


def write(name, data):
    with gzip.GzipFile(HERE / name, "wb", mtime=0) as f:
        f.write(data)


def uvarint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def read_texts():
    data, out, at = gzip.open(HERE / "texts.bin.gz").read(), [], 0
    while at < len(data):
        n = shift = 0
        while True:
            b, at = data[at], at + 1
            n, shift = n | (b & 127) << shift, shift + 7
            if b < 128:
                break
        out.append(data[at : at + n])
        at += n
    return out


def main(args):
    if args == ["--keep"]:
        data = read_texts()
        named = [(p.name.removesuffix(".json.gz"), gzip.open(p).read().decode()) for p in sorted(HERE.glob("*.json.gz"))]
    else:
        corpus = [Path(p).read_text() for p in args]
        data = texts()
        write("texts.bin.gz", b"".join(uvarint(len(t)) + t for t in data))
        named = [(name, json.dumps(f, ensure_ascii=False)) for name, f in families(corpus)]
    for name, file in named:
        tk = Tokenizer.from_str(file)
        for token in json.loads(file)["added_tokens"]:  # the library ignores the id in the file
            assert tk.token_to_id(token["content"]) == token["id"], token
        write(name + ".json.gz", file.encode())
        write(name + ".ref.gz", record(tk, data))
        print(name, tk.get_vocab_size(), len(data))


if __name__ == "__main__":
    main(sys.argv[1:])
