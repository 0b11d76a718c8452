#!/usr/bin/env python3
"""Records what the Hugging Face tokenizers library makes of texts.bin.gz with SmolLM2's vocabulary, taken from a GGUF file
and given SmolLM2's own pre-tokenizer, as smollm2.ref.gz (laid out as record.py says).

    python record_gguf.py MODEL.gguf
"""
import json
import sys

from gguf import GGUFReader
from tokenizers import Tokenizer

from record import added, byte_level, read_texts, record, sequence, write

CONTROL = 3


def field(reader, name):
    return reader.fields["tokenizer.ggml." + name].contents()


def main(path):
    reader = GGUFReader(path)
    tokens, merges, types = field(reader, "tokens"), field(reader, "merges"), field(reader, "token_type")
    specials = [t for t, kind in zip(tokens, types) if kind == CONTROL]
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, ignore_merges=False, vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [t | {"id": tokens.index(t["content"])} for t in added(0, *specials)],
            "normalizer": None, "pre_tokenizer": sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level()),
            "post_processor": None, "decoder": byte_level(True), "model": model}
    write("smollm2.ref.gz", record(Tokenizer.from_str(json.dumps(file)), read_texts()))
    print(len(tokens), "tokens,", len(merges), "merges,", len(specials), "special")


main(sys.argv[1])
