"""Records a file of the reference implementation with every common dtype.

Usage: python record.py   (needs torch and safetensors; writes reference.safetensors beside this file)
"""
import pathlib

import torch
from safetensors.torch import save_file

save_file(
    {
        "b.f32": torch.tensor([[0.5, -1.25, 3.0], [1e-30, -0.0, 65504.0]]),
        "a.f32": torch.tensor(2.5),
        "z.f16": torch.tensor([1.5, -2.0, 6e-8], dtype=torch.float16),
        "m.bf16": torch.tensor([[1.0], [3.140625]], dtype=torch.bfloat16),
        "ids": torch.tensor([1, 2, -3]),
        "mask": torch.tensor([True, False, True]),
        "bytes": torch.tensor([7], dtype=torch.uint8),
        'quote"<é>': torch.zeros(0, 4),
    },
    pathlib.Path(__file__).parent / "reference.safetensors",
    metadata={"format": "pt"},
)
