"""AdamW as one kernel, which GPUs use, against its plain form."""

import numpy as np
import torch

from trinity_worker.model import Model

STEP = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "clip_norm": 1.0}


def batch() -> dict:
    tokens, mask = np.arange(6, dtype=np.int32), np.array([0, 1, 1, 1, 1, 1], np.uint8)
    ones = {"rank": np.zeros(1, np.int32), "temperature": np.ones(1, np.float32)}
    return {"tokens": tokens, "lengths": np.array([6], np.int32), "mask": mask, **ones}


def steps(group, name: str, count: int) -> dict[str, torch.Tensor]:
    for _ in range(count):
        group.handle("forward", name, batch(), {"streams": ["logprob"], "hold": True})
        group.handle("backward", name, {"d_logprob": -np.ones(6, np.float32)}, {})
        assert group.handle("step", name, {}, STEP)[1]["applied"]
    return {n: p.detach().clone() for n, p in group.models[name].trained.items()}


def test_fused_optimizer_steps_as_the_plain_one(group, open_tiny, monkeypatch, tmp_path) -> None:
    adamw = {"train": True, "optimizer": {"type": "adamw"}}
    open_tiny("plain", **adamw)
    before = {n: p.detach().clone() for n, p in group.models["plain"].trained.items()}
    plain = steps(group, "plain", 3)
    monkeypatch.setattr(Model, "_fused", lambda self: True)
    for name in ("fused", "resumed"):
        open_tiny(name, **adamw)
        assert group.models[name].optimizer.defaults["fused"]
    state = tmp_path / "state"
    state.mkdir()
    steps(group, "fused", 1)
    group.handle("save", "fused", {}, {"kind": "state", "dir": str(state)})
    group.handle("load", "resumed", {}, {"kind": "state", "dir": str(state)})
    fused, resumed = steps(group, "fused", 2), steps(group, "resumed", 2)
    for name, weight in plain.items():
        assert (fused[name] - weight).norm() <= 1e-5 * (weight - before[name]).norm(), name
        assert torch.equal(fused[name], resumed[name]), name
