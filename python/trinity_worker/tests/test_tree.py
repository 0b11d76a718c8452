"""Stems that sequences share: computed once, with the streams and the gradient of separate sequences."""

import itertools
import json

import numpy as np
import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from trinity_worker.tree import SHORTEST_STEM, Tree, common

COMMON = {
    "vocab_size": 16, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "initializer_range": 0.3,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "output_router_logits": True}
KINDS = {
    "llama": (LlamaForCausalLM, LlamaConfig(**COMMON)),
    "window": (MistralForCausalLM, MistralConfig(**COMMON, sliding_window=7)),
    "experts": (Qwen3MoeForCausalLM, Qwen3MoeConfig(**COMMON, **EXPERTS, router_aux_loss_coef=0.1)),
}
STREAMS = ["logprob", "entropy"]


def sequences(seed: int) -> list[np.ndarray]:
    """Returns sequences of which some continue others, some leave them early, and some are alone."""
    r = np.random.default_rng(seed)
    all = [r.integers(0, 16, 30, np.int32)]
    for _ in range(8):
        old = all[r.integers(len(all))]
        stem = old[: r.integers(len(old) + 1)]
        all.append(np.concatenate([stem, r.integers(0, 16, 2 + r.integers(12), np.int32)]))
    return [*all, all[3].copy()]


def batch(all: list[np.ndarray], seed: int) -> tuple[dict, dict]:
    """Returns the arrays of a forward and of a backward request."""
    r = np.random.default_rng(seed)
    lengths = np.array([len(s) for s in all], np.int32)
    n = int(lengths.sum())
    mask = (r.random(n) < 0.6).astype(np.uint8)
    starts = np.cumsum(lengths) - lengths
    mask[starts] = 0
    mask[starts + 1] = 1
    arrays = {
        "tokens": np.concatenate(all), "lengths": lengths, "mask": mask, "rank": np.zeros(len(all), np.int32),
        "temperature": r.choice(np.array([1, 0.7], np.float32), len(all)),
    }  # fmt: skip
    return arrays, {"d_" + s: r.standard_normal(n).astype(np.float32) for s in STREAMS}


def one(arrays: dict, derivatives: dict, i: int) -> tuple[dict, dict]:
    """Returns the part of the requests that belongs to a sequence."""
    of_sequence = {"lengths", "rank", "temperature"}
    begin = int(arrays["lengths"][:i].sum())
    tokens = slice(begin, begin + int(arrays["lengths"][i]))
    mine = {k: a[i : i + 1] if k in of_sequence else a[tokens] for k, a in arrays.items()}
    return mine, {k: d[tokens] for k, d in derivatives.items()}


@pytest.mark.parametrize("seed", range(3))
def test_tree_has_each_prefix_once(seed: int) -> None:
    all = sequences(seed)
    tree = Tree(all)
    assert tree.shared and sum(tree.pieces) == tree.size == tree.branches[-1].end
    tokens = tree.gather(all)
    for s, path in zip(all, tree.paths, strict=True):
        assert (tokens[path] == s).all() and (np.diff(path) > 0).all()
    for (a, p), (b, q) in itertools.combinations(zip(all, tree.paths, strict=True), 2):
        n = common(a, b)
        assert (p[:n] == q[:n]).all() if n >= SHORTEST_STEM else not set(p) & set(q)
        assert not set(p[n:]) & set(q[n:])
    firsts = np.cumsum([0, *tree.pieces[:-1]])
    for b in tree.branches:
        own, path = (
            np.concatenate([np.arange(firsts[p], firsts[p] + tree.pieces[p]) for p in parts])
            for parts in tree.pieces_of(b)
        )
        assert (own == np.arange(b.begin, b.end)).all() and (path == b.path).all()


def test_sequences_without_a_stem_keep_their_order() -> None:
    all = [np.arange(n, 0, -1, dtype=np.int32) for n in (20, 3, 18)]
    all.append(np.concatenate([all[0][: SHORTEST_STEM - 1], all[0]]))
    tree = Tree(all)
    assert not tree.shared and (np.concatenate(tree.paths) == np.arange(tree.size)).all()


@pytest.mark.parametrize("compute", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_tree_computes_as_separate_sequences(group, tmp_path, kind: str, compute: str) -> None:
    torch.manual_seed(0)
    of, config = KINDS[kind]
    of(config).save_pretrained(tmp_path)
    if kind == "experts":
        assert json.loads((tmp_path / "config.json").read_text())["output_router_logits"]
    (tmp_path / "witness").write_text("nonce")
    witness = {"file": str(tmp_path / "witness"), "nonce": "nonce"}
    spec = {"path": str(tmp_path), "train": True, "optimizer": {"type": "adamw"}, "compute": compute, "chunk": 16}
    for name in ("together", "apart"):
        group.handle("open", name, {}, {"spec": spec, "witness": witness})
    exact = 2e-6 if compute == "float32" else 5e-2
    for seed in range(2):
        all = sequences(seed)
        arrays, derivatives = batch(all, seed)
        held, tokens = {"streams": STREAMS, "hold": True}, {"whole_tokens": len(arrays["tokens"])}
        got, meta = group.handle("forward", "together", arrays, held)
        group.handle("backward", "together", derivatives, tokens)
        want: dict = {s: [] for s in STREAMS}
        balance = 0.0
        for i in range(len(all)):
            mine, own = one(arrays, derivatives, i)
            streams, meta_one = group.handle("forward", "apart", mine, held)
            balance += meta_one.get("balance", 0)
            group.handle("backward", "apart", own, tokens)
            for s in STREAMS:
                want[s].append(streams[s])
        for s in STREAMS:
            assert np.abs(got[s] - np.concatenate(want[s])).max() < 10 * exact, s
        assert abs(meta.get("balance", 0) - balance) <= exact * balance
        together, apart = (group.models[n].trained for n in ("together", "apart"))
        for name, p in together.items():
            q = apart[name].grad
            assert (p.grad - q).norm() <= exact * 5 * q.norm(), name
        if kind == "experts" and compute == "float32":
            assert (group.models["together"].network.loads == group.models["apart"].network.loads).all()
        for name in ("together", "apart"):
            group.handle("discard", name, {}, {})
