"""The worker over HTTP: one rank and two, on a tiny model."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from trinity_worker import wire
from trinity_worker.join import answers

VOCABULARY, TOKEN = 96, "secret"
ADAM = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "weight_decay": 0.01, "clip_norm": 1.0}


class Worker:
    def __init__(self, ranks: int, program: tuple[str, ...] = ("-m", "trinity_worker"), **variables: str) -> None:
        if 0 < torch.cuda.device_count() < ranks:
            pytest.skip(f"{ranks} ranks need as many GPUs")
        env = os.environ | {"OMP_NUM_THREADS": "1", "TRINITY_WORKER_TOKEN": TOKEN} | variables
        command = [sys.executable]
        if ranks > 1:
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.process = subprocess.Popen([*command, *program, "--port", str(port)], env=env)
        self.url, self.sequence = f"http://127.0.0.1:{port}", 0
        while not answers(self.url + "/v1"):
            if self.process.poll() is not None:
                raise RuntimeError("the worker did not start")
            time.sleep(0.2)

    def call(self, path, arrays=None, meta=None, method="POST", token=TOKEN, step=1):
        head = {"Authorization": "Bearer " + token, "Trinity-Seq": str(self.sequence + step)}
        body = wire.encode(arrays or {}, meta or {})
        request = urllib.request.Request(self.url + path, body, head, method=method)
        with urllib.request.urlopen(request, timeout=120) as reply:
            self.sequence += step
            return wire.decode(reply.read())

    def refused(self, *args, **kwargs) -> str:
        with pytest.raises(urllib.error.HTTPError) as e:
            self.call(*args, **kwargs)
        return f"{e.value.code} {json.loads(e.value.read())['error']}"


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, Path]:
    paths = {}
    for i, name in enumerate(("student", "teacher")):
        torch.manual_seed(i)
        config = LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, tie_word_embeddings=i == 0, initializer_range=0.2,
        )  # fmt: skip
        paths[name] = tmp_path_factory.mktemp(name)
        LlamaForCausalLM(config).save_pretrained(paths[name])
    return paths


@pytest.fixture(scope="module", params=[1, 2], ids=["1 rank", "2 ranks"])
def worker(request):
    worker = Worker(request.param)
    worker.ranks = request.param
    yield worker
    worker.process.kill()
    worker.process.wait()


def batch(ranks: int) -> dict:
    r = np.random.default_rng(0)
    lengths = np.array([20, 7, 13, 2, 9], np.int32)
    n = int(lengths.sum())
    mask = (r.random(n) < 0.7).astype(np.uint8)
    mask[np.cumsum(lengths) - lengths] = 0
    return {
        "tokens": r.integers(0, VOCABULARY, n).astype(np.int32), "lengths": lengths, "mask": mask,
        "rank": np.arange(5, dtype=np.int32) % ranks, "temperature": np.array([1, 0.5, 2, 1, 0.7], np.float32),
        "teacher": np.zeros(5, np.int32),
    }  # fmt: skip


def oracle(path: Path, b: dict) -> torch.Tensor:
    """Log-distributions [N, V] in float64, one sequence at a time."""
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float64)
    out, at = torch.zeros(len(b["tokens"]), VOCABULARY, dtype=torch.float64), 0
    for n, t in zip(b["lengths"], b["temperature"], strict=True):
        ids = torch.from_numpy(b["tokens"][at : at + n].astype(np.int64))
        with torch.no_grad():
            out[at + 1 : at + n] = torch.log_softmax(model(ids[None]).logits[0] / float(t), -1)[:-1]
        at += n
    return out


def open_model(worker: Worker, name: str, path: Path, tmp: Path, arrays: dict | None = None, **spec) -> None:
    (tmp / "witness").write_text("nonce")
    meta = {"spec": {"path": str(path), **spec}, "witness": {"file": str(tmp / "witness"), "nonce": "nonce"}}
    worker.call(f"/v1/models/{name}", arrays, meta, method="PUT")


def test_streams_steps_and_resume(worker, models, tmp_path) -> None:
    adamw = {"type": "adamw"}
    open_model(worker, "student", models["student"], tmp_path, train=True, optimizer=adamw, chunk=4, recompute=1)
    open_model(worker, "teacher", models["teacher"], tmp_path)
    b = batch(worker.ranks)
    q, p = oracle(models["student"], b), oracle(models["teacher"], b)
    mask = b["mask"].astype(bool)
    streams = ["logprob", "entropy", "discriminator", "divergence"]
    meta = {"streams": streams, "divergence": "forward_kl", "teachers": ["teacher"]}
    out, _ = worker.call("/v1/models/student/forward", b, meta)
    want = {
        "logprob": q.gather(1, torch.from_numpy(b["tokens"].astype(np.int64))[:, None])[:, 0],
        "entropy": -(q.exp() * q).sum(-1),
        "divergence": (p.exp() * (p - q)).sum(-1),
    }
    for name, values in want.items():
        assert np.abs(out[name] - values.numpy() * mask).max() < 2e-5, name
    assert (out["discriminator"][~mask] == 0).all()

    targets = np.random.default_rng(1).integers(0, VOCABULARY, (len(mask), 3)).astype(np.int32)
    targets[::2, 2] = -1
    got = worker.call("/v1/models/student/forward", b | {"targets": targets}, {"streams": ["entropy", "logprob"]})[0]
    chosen = q.gather(1, torch.from_numpy(targets.clip(0).astype(np.int64))).numpy()
    assert np.abs(got["logprob"] - chosen * ((targets >= 0) & mask[:, None])).max() < 2e-5
    assert (got["entropy"] == out["entropy"]).all()

    held, derivatives = (
        {"streams": ["logprob"], "hold": True},
        {"d_logprob": np.where(mask, -0.1, 0).astype(np.float32)},
    )

    def step() -> np.ndarray:
        worker.call("/v1/models/student/forward", b, held)
        worker.call("/v1/models/student/backward", derivatives)
        assert worker.call("/v1/models/student/step", meta=ADAM)[1]["applied"]
        return worker.call("/v1/models/student/forward", b, {"streams": ["logprob"]})[0]["logprob"]

    first = step()
    assert first[mask].mean() > out["logprob"][mask].mean()
    state = tmp_path / "state"
    state.mkdir()
    worker.call("/v1/models/student/save", meta={"kind": "state", "dir": str(state)})
    second = step()
    worker.call("/v1/models/student/load", meta={"kind": "state", "dir": str(state)})
    assert (step() == second).all()

    files = tmp_path / "model"
    files.mkdir()
    worker.call("/v1/models/student/save", meta={"kind": "model", "dir": str(files)})
    again = oracle(files, b).gather(1, torch.from_numpy(b["tokens"].astype(np.int64))[:, None])[:, 0]
    assert np.abs(second - again.numpy() * mask).max() < 2e-5
    for name in ("student", "teacher"):
        worker.call(f"/v1/models/{name}", method="DELETE")


def test_graph_without_a_backward_pass(worker, models, tmp_path) -> None:
    """The step after it changes all weights, also those that FSDP had gathered for the graph."""
    open_model(worker, "m", models["student"], tmp_path, train=True, optimizer={"type": "adamw"})
    b, held = batch(worker.ranks), {"streams": ["logprob"], "hold": True}
    mask = b["mask"].astype(bool)
    worker.call("/v1/models/m/forward", b, held)
    worker.call("/v1/models/m/backward", {"d_logprob": np.where(mask, -0.1, 0).astype(np.float32)})
    worker.call("/v1/models/m/forward", b, held)
    worker.call("/v1/models/m/step", meta=ADAM | {"lr": 0.05})
    assert worker.refused("/v1/models/m/backward").startswith("400 no graph is held")
    got = worker.call("/v1/models/m/forward", b, {"streams": ["logprob"]})[0]["logprob"]
    files = tmp_path / "model"
    files.mkdir()
    worker.call("/v1/models/m/save", meta={"kind": "model", "dir": str(files)})
    want = oracle(files, b).gather(1, torch.from_numpy(b["tokens"].astype(np.int64))[:, None])[:, 0]
    assert np.abs(got - want.numpy() * mask).max() < 1e-4
    worker.call("/v1/models/m", method="DELETE")


def test_lost_body_is_no_request(worker, models, tmp_path) -> None:
    """The driver sends such a request again, with the same number."""
    open_model(worker, "m", models["student"], tmp_path, train=True, optimizer={"type": "adamw"})
    b = batch(worker.ranks)
    worker.call("/v1/models/m/forward", b, {"streams": ["logprob"], "hold": True})
    address = urllib.parse.urlsplit(worker.url)
    with socket.create_connection((address.hostname, address.port)) as lost:
        head = f"POST /v1/models/m/backward HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nTrinity-Seq: {worker.sequence + 1}"
        lost.sendall(f"{head}\r\nContent-Length: 100\r\n\r\n".encode())
        lost.shutdown(socket.SHUT_WR)
        assert lost.recv(1000) == b""
    worker.call("/v1/models/m/backward", {"d_logprob": b["mask"].astype(np.float32)})
    assert worker.call("/v1/models/m/step", meta=ADAM)[1]["grad_norm"] > 0
    worker.call("/v1/models/m", method="DELETE")


def test_worker_ends_with_its_lease() -> None:
    worker = Worker(2, TRINITY_WORKER_LEASE="1")
    assert worker.process.wait(timeout=60) != 0
    with pytest.raises(urllib.error.URLError):
        worker.call("/v1", method="GET")


def test_directory_of_another_machine_is_refused(models, tmp_path) -> None:
    """Rank 1 would save its shards there."""
    tests = Path(__file__).parent
    worker = Worker(2, program=(str(tests / "elsewhere.py"),), PYTHONPATH=str(tests.parent))
    witness = tmp_path / "witness"
    for text, want in (
        (None, "does not see the run's directory: "),
        ("other", "sees another directory than the driver's: "),
    ):
        if text:
            (tmp_path / "witness.gpu2").write_text(text)
        with pytest.raises(urllib.error.HTTPError) as e:
            open_model(worker, "m", models["student"], tmp_path)
        error = json.loads(e.value.read())["error"]
        assert e.value.code == 400 and error.startswith("rank 1: the worker on gpu2 " + want) and str(witness) in error
        assert worker.call("/v1", method="GET", step=0)[1]["models"] == {}
    (tmp_path / "witness.gpu2").write_text("nonce")
    open_model(worker, "m", models["student"], tmp_path)
    worker.call("/v1/models/m/forward", batch(2), {"streams": ["logprob"]})
    worker.process.kill()
    worker.process.wait()


def test_damaged_state_is_named(models, tmp_path) -> None:
    """PyTorch's error for it is no Exception. Whatever ends a request must be told, and ends the worker."""
    worker = Worker(1)
    open_model(worker, "m", models["student"], tmp_path, train=True, optimizer={"type": "adamw"})
    state = tmp_path / "state"
    state.mkdir()
    worker.call("/v1/models/m/save", meta={"kind": "state", "dir": str(state)})
    os.truncate(state / "__0_0.distcp", 5000)
    message = worker.refused("/v1/models/m/load", meta={"kind": "state", "dir": str(state)})
    assert message.startswith("500 rank 0: ") and "Traceback" not in message, message
    assert worker.process.wait(timeout=60) == 1


def test_model_that_transformers_does_not_load_is_refused(worker, models, tmp_path) -> None:
    config = json.loads((models["student"] / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_size": "x"}))
    with pytest.raises(urllib.error.HTTPError) as e:
        open_model(worker, "m", tmp_path, tmp_path)
    assert e.value.code == 400 and "hidden_size" in json.loads(e.value.read())["error"]


def test_status(worker) -> None:
    status = worker.call("/v1", method="GET", step=0)[1]
    assert (status["protocol"], status["ranks"], status["busy"]) == (4, worker.ranks, {})


def test_bad_requests_change_nothing(worker, models, tmp_path) -> None:
    open_model(
        worker,
        "m",
        models["student"],
        tmp_path,
        train=True,
        optimizer={"type": "sgd", "momentum": 0, "nesterov": False},
    )
    b, want = batch(worker.ranks), {"streams": ["logprob"]}
    cases = {
        "401": worker.refused("/v1/models/m/step", meta=ADAM, token="other"),
        "409": worker.refused("/v1/models/m/step", meta=ADAM, step=2),
        "404": worker.refused("/v1/models/m/train"),
        "400 no graph is held": worker.refused("/v1/models/m/backward"),
        "400 no model is called 'n'": worker.refused("/v1/models/n/forward", b, want),
        "400 tokens are outside": worker.refused("/v1/models/m/forward", b | {"tokens": b["tokens"] + VOCABULARY}, want),
        "400 lengths must": worker.refused("/v1/models/m/forward", b | {"lengths": b["lengths"] + 1}, want),
        "400 streams is": worker.refused("/v1/models/m/forward", b, {"streams": ["value"]}),
        "400 temperature": worker.refused("/v1/models/m/forward", b | {"temperature": b["temperature"] * 0}, want),
        "400 TypeError: ": worker.refused("/v1/models/m/forward", b, {"streams": [{}]}),
        "400 lr is None": worker.refused("/v1/models/m/step"),
        "400 this worker sees no directory": worker.refused("/v1/models/m/save", meta={"kind": "model", "dir": "/no"}),
        f"400 the worker on {socket.gethostname()} does not see the run's directory": worker.refused(
            "/v1/models/x", method="PUT",
            meta={"spec": {"path": str(models["student"])}, "witness": {"file": "/no/file", "nonce": "x"}},
        ),
    }  # fmt: skip
    for start, message in cases.items():
        assert message.startswith(start), f"{message!r} does not start with {start!r}"
    worker.call("/v1/models/m/forward", b, want | {"hold": True})
    nan = np.full(len(b["tokens"]), np.nan, np.float32)
    assert worker.refused("/v1/models/m/backward", {"d_logprob": nan}).startswith("400 array 'd_logprob' has an entry")
    reply = worker.call("/v1/models/m/forward", b, want)
    assert (worker.call("/v1/models/m/step", meta=ADAM, step=0)[0]["logprob"] == reply[0]["logprob"]).all()
    worker.call("/v1/models/m", method="DELETE")
