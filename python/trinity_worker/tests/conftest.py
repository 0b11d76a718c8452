"""What several tests share: a group of one rank in this process, and a model that it opens."""

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from transformers import LlamaConfig, LlamaForCausalLM

from trinity_worker.group import Group
from trinity_worker.layout import Layout

torch.set_num_threads(1)  # tiny models gain nothing from more


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield Group(Layout(torch.device("cpu"), dist.group.WORLD))
    dist.destroy_process_group()


@pytest.fixture
def open_tiny(group, tmp_path):
    """Opens a model of one layer, the same for every name."""
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, initializer_range=0.5,
        )
    ).save_pretrained(tmp_path)  # fmt: skip
    (tmp_path / "witness").write_text("nonce")
    witness = {"file": str(tmp_path / "witness"), "nonce": "nonce"}

    def do(name: str = "m", **spec):
        group.handle("open", name, {}, {"spec": {"path": str(tmp_path), **spec}, "witness": witness})
        return group.models[name]

    return do
