"""Memory of models: a dropped one leaves no weights behind, also where FSDP has made cycles of references; one that is
not in use may lie on the host."""

import gc
import weakref

import numpy as np

from trinity_worker.host import local

FSDP = {"compute": "bfloat16", "recompute": 1}  # on one rank; its copies of the weights can be emptied on a CPU too
TRAINED = {"train": True, "optimizer": {"type": "adamw"}, **FSDP}


def test_dropped_model_is_freed(group, open_tiny) -> None:
    gc.disable()
    try:
        open_tiny(**TRAINED)
        weights = [weakref.ref(p) for p in group.models["m"].network.parameters()]
        group.handle("drop", "m", {}, {})
        assert not [w for w in weights if w() is not None]
    finally:
        gc.enable()


def test_models_that_are_not_in_use_lie_in_host_memory(group, open_tiny) -> None:
    open_tiny(**TRAINED, param_offload=True, optimizer_offload=True)
    open_tiny(name="other", **FSDP, param_offload=True)
    batch = {"tokens": np.arange(4, dtype=np.int32), "lengths": np.array([4], np.int32), "rank": np.zeros(1, np.int32)}
    batch |= {"mask": np.array([0, 1, 1, 1], np.uint8), "temperature": np.ones(1, np.float32)}
    m, streams = group.models["m"], {"streams": ["logprob"]}

    def here(tensors) -> bool:
        """Whether all of the memory is on the device; some of it never is."""
        there = [local(t).untyped_storage().nbytes() > 0 for t in tensors]
        assert all(there) or not any(there)
        return all(there)

    weights, others = list(m.network.parameters()), list(group.models["other"].network.parameters())
    group.handle("forward", "m", batch, streams | {"hold": True})
    assert here(weights) and not here(others)
    group.handle("forward", "other", batch, streams)
    assert here(weights) and here(others)  # the graph that is held needs its weights
    group.handle("backward", "m", {"d_logprob": np.ones(4, np.float32)}, {})
    gradients = [p.grad for p in weights]
    group.handle("forward", "other", batch, streams)
    assert not here(weights) and not here(gradients)
    step = {"lr": 0.1, "beta1": 0.9, "beta2": 0.9, "eps": 1e-8, "weight_decay": 0, "clip_norm": 1}
    group.handle("step", "m", {}, step)
    moments = [s["exp_avg"] for s in m.optimizer.state.values()]
    assert here(weights) and not here(others) and not here(moments)
    group.handle("offer", "m", {}, {})
    assert not here(weights)
