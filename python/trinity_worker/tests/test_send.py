# ruff: noqa: F811, the fixtures of another file are parameters
"""The verb send, between a worker and the ranks of a server that is a process of this test."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import receive
import torch
from safetensors.torch import load_file
from test_worker import ADAM, Worker, batch, models, open_model, worker  # noqa: F401, fixtures

MODEL = "/v1/models/m"


class Rank:
    """A rank of the server, whose process is ready."""

    def __init__(self) -> None:
        pipe, env = subprocess.PIPE, os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        command = [sys.executable, receive.__file__]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=env)
        self.answer()

    def ask(self, *words) -> None:
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict:
        return json.loads(self.process.stdout.readline())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def server():
    ranks = [Rank(), Rank()]
    yield ranks
    for r in ranks:
        r.end()


def send(worker: Worker, stage: str, **meta) -> dict:
    return worker.call(MODEL + "/send", meta={"stage": stage, **meta})[1]


def plan(worker: Worker, limit: int = 10000, dtype: str = "float32") -> list:
    return send(worker, "plan", dtype=dtype, limit=limit)["buckets"]


def opened(worker: Worker, group: str, ranks: int, seconds: float = 30, transport: str = "gloo") -> dict:
    at = send(worker, "open", transport=transport, group=group, peer="127.0.0.1", seconds=seconds)
    return {"transport": transport, "group": group, "world": ranks + 1, "seconds": seconds, **at}


def deliver(worker: Worker, server: list[Rank], buckets: list, group: str, announces: bool = True) -> list[dict]:
    """Sends all buckets, and returns what each rank of the server has received."""
    given = opened(worker, group, len(server))
    for i, r in enumerate(server):
        r.ask("join", given, i, announces)
    assert send(worker, "join", world=len(server) + 1, announced=announces) == {}
    got: list[dict] = [r.answer() for r in server]
    for i, bucket in enumerate(buckets):
        for r in server:
            r.ask("bucket", bucket, {})
        assert send(worker, "bucket", index=i) == {}
        for all_of, r in zip(got, server, strict=True):
            all_of |= r.answer()
    assert send(worker, "close") == {}
    for r in server:
        r.ask("leave")
        r.answer()
    return got


def told(files: Path, dtype: str = "float32") -> dict:
    """What a rank of the server says of the tensors of a model directory. Several ranks write a tied head twice."""
    weights = load_file(files / "model.safetensors")
    if json.loads((files / "config.json").read_text())["tie_word_embeddings"]:
        weights.pop("lm_head.weight", None)
    return receive.told((n, t.to(getattr(torch, dtype))) for n, t in weights.items())


@pytest.fixture
def model(worker, models, tmp_path):
    open_model(worker, "m", models["student"], tmp_path, train=True, keep=True, optimizer={"type": "adamw"})
    yield models["student"]
    worker.call(MODEL, method="DELETE")


def train(worker: Worker) -> None:
    b = batch(worker.ranks)
    worker.call(MODEL + "/forward", b, {"streams": ["logprob"], "hold": True})
    d = np.where(b["mask"] > 0, np.float32(-0.1), np.float32(0)).astype(np.float32)
    worker.call(MODEL + "/backward", {"d_logprob": d})
    worker.call(MODEL + "/step", meta=ADAM)


def saved(worker: Worker, kind: str, path: Path) -> Path:
    path.mkdir()
    worker.call(MODEL + "/save", meta={"kind": kind, "dir": str(path)})
    return path


def test_a_server_gets_what_files_would_hold(worker, server, model, tmp_path) -> None:
    buckets = plan(worker)
    assert len(buckets) > 2 and not any("lm_head" in e[0] for b in buckets for e in b)  # the head is the embedding
    first = told(model)
    assert deliver(worker, server, buckets, "g1") == [first, first]
    worker.call(MODEL + "/offer")
    train(worker)  # a version stays until the next one is offered
    assert deliver(worker, server[:1], buckets, "g2", announces=False) == [first]
    worker.call(MODEL + "/offer")
    new = told(saved(worker, "model", tmp_path / "new"))
    assert new != first
    assert deliver(worker, server[:1], buckets, "g3") == [new]
    half = plan(worker, dtype="bfloat16", limit=1)
    assert len(half) == len(new)  # a tensor larger than the limit is a bucket
    assert deliver(worker, server[:1], half, "g4") == [told(tmp_path / "new", "bfloat16")]


def test_what_a_server_does_ends_no_worker(worker, server, model) -> None:
    buckets = plan(worker)
    lone = Rank()
    lone.ask("join", opened(worker, "late", 2, seconds=5), 1, True)
    assert send(worker, "join", world=3, announced=True)["failed"] == "rank 0 of the server has not come within 5 s"
    lone.end()
    opened(worker, "silent", 1, seconds=2)
    assert "failed" in send(worker, "join", world=2)
    for group, dies in (("dies", True), ("stalls", False)):
        only = Rank()
        only.ask("join", opened(worker, group, 1, seconds=5), 0, True)
        assert send(worker, "join", world=2, announced=True) == {}
        only.answer()
        if dies:
            only.end()
        assert "failed" in send(worker, "bucket", index=0)
        only.end()
    assert send(worker, "open", transport="gloo", group="x", peer="no such host.", seconds=1)["failed"]
    assert deliver(worker, server[:1], buckets, "again") == [told(model)]


def test_refusals(worker, model) -> None:
    url = MODEL + "/send"
    for meta, want in (
        ({}, "stage is None; expected one of plan, open, join, bucket, close"),
        ({"stage": "open", "transport": "gloo"}, "the stage plan, which lists the tensors, is missing"),
        ({"stage": "plan", "dtype": "int8", "limit": 1}, "dtype must be one of float32, bfloat16, float16"),
        ({"stage": "plan", "dtype": "float32", "limit": 0}, "and limit a number of bytes"),
    ):
        assert want in worker.refused(url, meta=meta)
    plan(worker)
    for meta, want in (
        ({"stage": "join", "world": 2}, "the stage open is missing"),
        ({"stage": "open", "transport": "mpi"}, "transport is 'mpi'; expected one of gloo, nccl, ipc"),
    ):
        assert want in worker.refused(url, meta=meta)
    if not torch.cuda.is_available():
        for transport in ("nccl", "ipc"):
            want = f"{transport} needs GPUs, and this worker has none"
            assert want in worker.refused(url, meta={"stage": "open", "transport": transport})
    opened(worker, "r", 1)
    assert "index is 10000; there are" in worker.refused(url, meta={"stage": "bucket", "index": 10000})
    assert send(worker, "bucket", index=0) == {"failed": "the server has not joined"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU that both processes use")
def test_a_server_on_the_same_gpu_reads_its_memory(worker, model, tmp_path) -> None:
    new = told(saved(worker, "model", tmp_path / "new"))
    beside = Rank()
    for dtype, want in (("float32", new), ("bfloat16", told(tmp_path / "new", "bfloat16"))):
        buckets, got = plan(worker, dtype=dtype), {}
        beside.ask("join", opened(worker, dtype, 1, transport="ipc"), 0, False)
        beside.answer()
        for i, bucket in enumerate(buckets):
            handles = send(worker, "bucket", index=i)["handles"]
            beside.ask("bucket", bucket, handles)
            got |= beside.answer()
        assert send(worker, "close") == {}
        assert len(buckets) > 1 and got == want
    beside.end()


def test_experts_have_the_names_of_checkpoints(worker, server, tmp_path) -> None:
    files = Path(__file__).parents[3] / "engine" / "cpu" / "testdata" / "qwen3_moe"
    if not files.is_dir():
        pytest.skip("the tiny model of the repository is not here")
    open_model(worker, "m", files, tmp_path)
    buckets = plan(worker, limit=1 << 30)
    got = deliver(worker, server[:1], buckets, "experts")[0]
    assert got == told(files) and any(".experts.1." in name for name in got)
    worker.call(MODEL, method="DELETE")
