"""Adapters of experts against PEFT's own computation."""

from typing import Any

import numpy as np
import pytest
import torch
from families import tiny, witness
from test_families import ADAMW, EXACT, STREAMS, request
from test_worker import ADAM
from transformers import AutoModelForCausalLM

from trinity_worker import adapted_experts as worker
from trinity_worker.wire import BadRequest

BOTH = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
TARGETS = {
    "both": {"target_modules": ["q_proj", "o_proj"], "target_parameters": BOTH},
    "gate and up": {"target_modules": [], "target_parameters": BOTH[:1]},
    "down": {"target_modules": ["v_proj"], "target_parameters": ["layers.1.mlp.experts.down_proj"], "use_rslora": True},
}


def adapted_experts(path: Any, targets: str = "both") -> Any:
    """Returns a model with a random adapter, as PEFT has it."""
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager")
    model = peft.get_peft_model(base, peft.LoraConfig(r=3, lora_alpha=5, **TARGETS[targets])).eval()
    torch.manual_seed(1)
    for name, p in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(p, std=0.3)
    return model


def single_sequences(model: Any, arrays: dict, derivatives: dict) -> tuple[dict, torch.Tensor]:
    """Returns PEFT's streams of single sequences, and the loss whose derivatives by them are given."""
    streams: dict = {s: [] for s in STREAMS}
    loss, at = torch.zeros(()), 0
    for n in arrays["lengths"]:
        ids = torch.from_numpy(arrays["tokens"][at : at + n].astype(np.int64))
        logp = torch.log_softmax(model(input_ids=ids[None], use_cache=False).logits[0, :-1].float(), -1)
        got = {"logprob": logp.gather(1, ids[1:, None])[:, 0], "entropy": -(logp.exp() * logp).sum(-1)}
        for s in STREAMS:
            loss = loss + (got[s] * torch.from_numpy(derivatives["d_" + s][at + 1 : at + n])).sum()
            streams[s].append(np.concatenate([[0], got[s].detach().numpy()]))
        at += n
    return {s: np.concatenate(parts) for s, parts in streams.items()}, loss


@pytest.mark.parametrize("recompute", [0, 4])
@pytest.mark.parametrize("targets", TARGETS)
def test_streams_gradients_and_steps_are_pefts(group, tmp_path, targets: str, recompute: int) -> None:
    path, lora = tiny("qwen3_moe", tmp_path / "model"), tmp_path / "adapter"
    model = adapted_experts(path, targets)
    model.save_pretrained(lora)
    spec = {"path": str(path), "lora": str(lora), "train": True, "optimizer": ADAMW, "recompute": recompute}
    group.handle("open", "m", {}, {"spec": spec, "witness": witness(path)})
    network = group.models["m"].network
    arrays, derivatives = request(1)
    mine = {name.removeprefix("lm."): p for name, p in network.trained().items()}
    theirs = {name: p for name, p in model.named_parameters() if p.requires_grad}
    assert mine.keys() == theirs.keys() and any("experts" in name for name in mine)
    optimizer = torch.optim.AdamW(theirs.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1)
    for step in range(3):
        optimizer.zero_grad()
        want, loss = single_sequences(model, arrays, derivatives)
        loss.backward()
        got, _ = group.handle("forward", "m", arrays, {"streams": STREAMS, "hold": True})
        group.handle("backward", "m", derivatives, {"whole_tokens": len(arrays["tokens"])})
        exact = EXACT if step == 0 else 5 * EXACT  # rounding errors add up
        for s in STREAMS:
            assert np.abs(got[s] - want[s]).max() <= exact, s
        for name, p in theirs.items():
            assert (mine[name].grad - p.grad).norm() <= exact * p.grad.norm(), name
        optimizer.step()
        adam = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1, "clip_norm": 0}
        group.handle("step", "m", {}, adam)
        for name, p in theirs.items():
            assert (mine[name] - p).norm() <= EXACT * p.norm(), name


def test_saved_adapter_is_pefts_and_can_be_turned_off(group, tmp_path) -> None:
    from peft import PeftModel

    path, lora, out = tiny("qwen3_moe", tmp_path / "model"), tmp_path / "adapter", tmp_path / "out"
    adapted_experts(path).save_pretrained(lora)
    out.mkdir()
    spec = {"path": str(path), "lora": str(lora), "train": True, "optimizer": ADAMW}
    group.handle("open", "m", {}, {"spec": spec, "witness": witness(path)})
    arrays, derivatives = request(1)
    group.handle("forward", "m", arrays, {"streams": STREAMS, "hold": True})
    group.handle("backward", "m", derivatives, {"whole_tokens": len(arrays["tokens"])})
    group.handle("step", "m", {}, ADAM | {"lr": 1e-2})
    group.handle("save", "m", {}, {"kind": "model", "dir": str(out)})
    base = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").eval()
    with torch.no_grad():
        plain, _ = single_sequences(base, arrays, derivatives)
        trained, _ = single_sequences(PeftModel.from_pretrained(base, out).eval(), arrays, derivatives)
    for want, meta in ((trained, {}), (plain, {"reference": True})):
        got, _ = group.handle("forward", "m", arrays, {"streams": STREAMS} | meta)
        for s in STREAMS:
            assert np.abs(got[s] - want[s]).max() <= EXACT, s
    assert np.abs(trained["logprob"] - plain["logprob"]).max() > 0.1


@pytest.mark.parametrize("shares", [False, True])
def test_products_in_bfloat16(group, tmp_path, shares: bool) -> None:
    """They are those of the float32 weights but for their rounding, step after step, also with the weights of a base."""
    path, lora = tiny("qwen3_moe", tmp_path / "model"), tmp_path / "adapter"
    adapted_experts(path).save_pretrained(lora)
    plain = {"path": str(path), "compute": "bfloat16"}
    spec = {"lora": str(lora), "train": True, "optimizer": ADAMW}
    models = {
        "base": plain,
        "m": plain | spec | ({"base": "base"} if shares else {}),
        "exact": {"path": str(path)} | spec,
    }
    for name, own in models.items():
        group.handle("open", name, {}, {"spec": own, "witness": witness(path)})
    arrays, derivatives = request(1)
    for _ in range(2):
        got = {}
        for name in ("m", "exact"):
            got[name], _ = group.handle("forward", name, arrays, {"streams": STREAMS, "hold": True})
            group.handle("backward", name, derivatives, {"whole_tokens": len(arrays["tokens"])})
            group.handle("step", name, {}, ADAM | {"lr": 1e-3})
        difference = np.abs(got["m"]["logprob"] - got["exact"]["logprob"])
        assert 0 < np.median(difference) <= 0.05


def test_experts_of_another_kind_are_refused(tmp_path) -> None:
    peft = pytest.importorskip("peft")
    base = AutoModelForCausalLM.from_pretrained(tiny("gpt-oss", tmp_path))
    model = peft.get_peft_model(
        base, peft.LoraConfig(r=2, target_modules=[], target_parameters=["mlp.experts.down_proj"])
    )
    with pytest.raises(BadRequest, match="gpt: this worker trains no adapters of experts of this kind"):
        worker.attach(model, "gpt")
