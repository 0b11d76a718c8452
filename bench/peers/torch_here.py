"""What the peers of PyTorch share: as many threads as the other side has, and the model in f32."""
import os

from turns import spec

os.environ["OMP_NUM_THREADS"] = str(spec["threads"])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch

torch.set_num_threads(spec["threads"])
torch.manual_seed(0)


def load(**kwargs):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(spec["peer_model"], dtype=torch.float32, **kwargs)
