"""How two ranks divide a model and its rows: each way gives the numbers of the others."""

import numpy as np
import pytest
from test_worker import ADAM, Worker, batch, open_model
from test_worker import models as models  # a fixture

ADAMW = {"train": True, "optimizer": {"type": "adamw"}}


@pytest.fixture(scope="module")
def pair():
    worker = Worker(2)
    yield worker
    worker.process.kill()
    worker.process.wait()


def step(worker: Worker, name: str, b: dict) -> np.ndarray:
    """Trains one step and returns the log-probabilities of its graph."""
    out = worker.call(f"/v1/models/{name}/forward", b, {"streams": ["logprob"], "hold": True})[0]["logprob"]
    worker.call(f"/v1/models/{name}/backward", {"d_logprob": np.where(b["mask"], -0.1, 0).astype(np.float32)})
    assert worker.call(f"/v1/models/{name}/step", meta=ADAM)[1]["applied"]
    return out


def test_gathered_weights_change_nothing(pair, models, tmp_path) -> None:
    """Weights that stay gathered over a forward pass without a backward pass would be old after the next step."""
    b = batch(2)
    for name, more in (("plain", {}), ("kept", {"gathered": True})):
        open_model(pair, name, models["student"], tmp_path, **ADAMW, **more)
    for _ in range(3):
        assert (step(pair, "plain", b) == step(pair, "kept", b)).all()
        got, want = (
            pair.call(f"/v1/models/{n}/forward", b, {"streams": ["logprob"]})[0]["logprob"] for n in ("kept", "plain")
        )
        assert (got == want).all()
        for name in ("plain", "kept"):  # a graph that no backward pass frees
            pair.call(f"/v1/models/{name}/forward", b, {"streams": ["logprob"], "hold": True})
    for name in ("plain", "kept"):
        pair.call(f"/v1/models/{name}", method="DELETE")
