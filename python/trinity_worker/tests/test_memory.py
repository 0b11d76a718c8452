"""A dropped model leaves no weights behind, also where FSDP has made cycles of references."""

import gc
import weakref

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from transformers import LlamaConfig, LlamaForCausalLM

from trinity_worker.group import Group
from trinity_worker.layout import Layout


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield Group(Layout(torch.device("cpu"), dist.group.WORLD))
    dist.destroy_process_group()


def test_dropped_model_is_freed(group, tmp_path) -> None:
    shape = {
        "vocab_size": 16,
        "hidden_size": 8,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
    }
    LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(tmp_path)
    (tmp_path / "witness").write_text("nonce")
    spec = {"path": str(tmp_path), "train": True, "optimizer": {"type": "adamw"}, "compute": "bfloat16"}
    witness = {"file": str(tmp_path / "witness"), "nonce": "nonce"}
    gc.disable()
    try:
        group.handle("open", "m", {}, {"spec": spec, "witness": witness})
        weights = [weakref.ref(p) for p in group.models["m"].network.parameters()]
        group.handle("drop", "m", {}, {})
        assert not [w for w in weights if w() is not None]
    finally:
        gc.enable()
