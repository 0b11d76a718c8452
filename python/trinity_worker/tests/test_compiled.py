"""Compiled layers and heads against those that are not. It needs a C++ compiler."""

import shutil

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters
from transformers import LlamaConfig, LlamaForCausalLM

from trinity_worker import compiled

STREAMS = ["logprob", "entropy"]
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("g++", "c++", "clang++"))), reason="no C++ compiler")


def batch(seed: int) -> tuple[dict, dict]:
    """Returns replies of unequal lengths to one prompt, and one sequence of its own."""
    r = np.random.default_rng(seed)
    prompt = r.integers(0, 16, 20, np.int32)
    all = [np.concatenate([prompt, r.integers(0, 16, 1 + r.integers(9), np.int32)]) for _ in range(3)]
    all.append(r.integers(0, 16, 2 + r.integers(9), np.int32))
    lengths = np.array([len(s) for s in all], np.int32)
    n = int(lengths.sum())
    mask = (r.random(n) < 0.6).astype(np.uint8)
    mask[np.cumsum(lengths) - lengths] = 0
    arrays = {
        "tokens": np.concatenate(all), "lengths": lengths, "mask": mask, "rank": np.zeros(len(all), np.int32),
        "temperature": np.array([1, 1, 0.7, 1], np.float32),
    }  # fmt: skip
    return arrays, {"d_" + s: r.standard_normal(n).astype(np.float32) for s in STREAMS}


@needs_compiler
@pytest.mark.parametrize("compute,recompute", [("bfloat16", 0), ("float32", 1)])
def test_compiled_model_computes_as_the_plain_one(group, tmp_path, compute: str, recompute: int) -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16, hidden_size=32, intermediate_size=32, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, initializer_range=0.3,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    (tmp_path / "witness").write_text("nonce")
    witness = {"file": str(tmp_path / "witness"), "nonce": "nonce"}
    spec = {"path": str(tmp_path), "train": True, "optimizer": {"type": "adamw"}, "compute": compute, "chunk": 16}
    torch._dynamo.reset()
    for name in ("plain", "compiled"):
        own = {"recompute": recompute, "compile": name == "compiled"}
        group.handle("open", name, {}, {"spec": spec | own, "witness": witness})
    assert group.models["compiled"].network.compiled
    exact, graphs = 1e-5 if compute == "float32" else 5e-2, []
    for seed in range(4):
        counters.clear()
        arrays, derivatives = batch(seed)
        for hold in (False, True):
            plain, got = (
                group.handle("forward", m, arrays, {"streams": STREAMS, "hold": hold})[0] for m in ("plain", "compiled")
            )
            for s in STREAMS:
                assert np.abs(plain[s] - got[s]).max() < exact, s
        for m in ("plain", "compiled"):
            group.handle("backward", m, derivatives, {})
        for name, p in group.models["plain"].trained.items():
            grad = group.models["compiled"].trained[name].grad
            assert (grad - p.grad).norm() <= exact * p.grad.norm(), name
        graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0 and graphs[-1] == 0  # rows of other lengths need no other code


def test_worker_says_once_that_nothing_is_compiled(monkeypatch, capsys) -> None:
    def fails(*args, **kwargs):
        raise RuntimeError("\nno compiler\nat all")

    monkeypatch.setattr(torch, "compile", fails)
    compiled.works.cache_clear()
    assert not any(compiled.works(torch.device("cpu")) for _ in range(2))
    said = capsys.readouterr().err
    assert said == "torch.compile does not work here, so nothing is compiled: RuntimeError: no compiler\n", said
    compiled.works.cache_clear()
