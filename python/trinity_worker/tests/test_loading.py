"""Weights that each rank reads for itself: the values of transformers, and no more memory than the ranks keep."""

import json
import time
from pathlib import Path
from threading import Thread

import pytest
import torch
from test_layout import workers  # noqa: F401
from test_tree import COMMON, KINDS
from test_worker import Worker, open_model
from transformers import LlamaConfig, LlamaForCausalLM

SIZE = {
    "vocab_size": 16384,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
}


def ranks(worker: Worker) -> list[Path]:
    """Returns the directories of the ranks' processes in /proc."""
    mine = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((directory / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, ProcessLookupError):
            continue
        if parent == worker.process.pid:
            mine.append(directory)
    return mine


def taken(ranks: list[Path]) -> int:
    """Returns the bytes that processes have in memory, without the pages of files that the system may drop."""
    lines = [dict(line.split(":", 1) for line in (r / "status").read_text().splitlines()) for r in ranks]
    return sum(int(line["RssAnon"].split()[0]) << 10 for line in lines)


def test_two_ranks_need_the_memory_of_one_model(tmp_path) -> None:
    """Each rank has its half. Reading the whole model on each would take twice as much at least."""
    big, tiny = tmp_path / "big", tmp_path / "tiny"
    model = LlamaForCausalLM(LlamaConfig(**SIZE, num_key_value_heads=8, tie_word_embeddings=True))
    weights = sum(p.numel() for p in model.parameters()) * 4
    model.bfloat16().save_pretrained(big)
    del model
    LlamaForCausalLM(LlamaConfig(**COMMON)).save_pretrained(tiny)
    worker = Worker(2)
    try:
        open_model(worker, "tiny", tiny, tmp_path)  # has all modules imported
        all = ranks(worker)
        assert len(all) == 2
        before = most = taken(all)
        opening = Thread(target=open_model, args=(worker, "big", big, tmp_path))
        opening.start()
        while opening.is_alive():
            most = max(most, taken(all))
            time.sleep(0.001)
        part = (max(most, taken(all)) - before) / weights
        assert 0.9 < part <= 1.2, f"{part:.2f} of the model's bytes"
    finally:
        worker.process.kill()
        worker.process.wait()


@pytest.mark.parametrize(
    "spec", [{}, {"strategy": "ddp", "train": True}, {"tensor": 2}, {"train": True}], ids=json.dumps
)
@pytest.mark.parametrize("kind", ["llama", "experts", "uneven"])
def test_loaded_weights_are_those_of_the_files(workers, tmp_path, kind: str, spec: dict) -> None:  # noqa: F811
    of, config = KINDS.get(
        kind, (LlamaForCausalLM, LlamaConfig(**(COMMON | {"vocab_size": 19, "intermediate_size": 33})))
    )
    if kind != "llama" and "tensor" in spec:
        pytest.skip("not of one size on two ranks")
    torch.manual_seed(0)
    model = of(config).eval()
    model.save_pretrained(tmp_path / "model", max_shard_size="20KB")
    want = model.state_dict()
    for worker in workers[1 if "tensor" in spec else 0 :]:
        more = {"optimizer": {"type": "adamw"}} if "train" in spec else {}
        open_model(worker, "m", tmp_path / "model", tmp_path, **spec, **more)
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        worker.call("/v1/models/m/save", meta={"kind": "model", "dir": str(out)})
        got = of.from_pretrained(out).state_dict()
        assert got.keys() == want.keys()
        for name, tensor in want.items():
            assert torch.equal(got[name], tensor), name
        worker.call("/v1/models/m", method="DELETE")
