"""How ranks divide a model and its rows: each way gives the numbers of one rank."""

import contextlib

import numpy as np
import pytest
import torch
from families import tiny
from test_adapted_experts import adapted_experts
from test_tree import COMMON, KINDS, batch, sequences
from test_worker import ADAM, Worker, open_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3_5ForCausalLM, Qwen3_5TextConfig

ADAMW = {"train": True, "optimizer": {"type": "adamw"}}
SGD = {"train": True, "optimizer": {"type": "sgd", "momentum": 0, "nesterov": False}}
HALVES = {"sequence": 2}


@pytest.fixture(scope="module")
def workers():
    all = [Worker(1), Worker(2)]
    yield all
    for worker in all:
        worker.process.kill()
        worker.process.wait()


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> dict:
    """The directories of models: of each kind, with one head of keys, and an adapter."""
    kinds = {**KINDS, "one head of keys": (LlamaForCausalLM, LlamaConfig(**(COMMON | {"num_key_value_heads": 1})))}
    out = {}
    for i, (name, (of, config)) in enumerate(kinds.items()):
        torch.manual_seed(i)
        out[name] = tmp_path_factory.mktemp("model")
        of(config).save_pretrained(out[name])
    out["sinks"] = tiny("gpt-oss", tmp_path_factory.mktemp("model"), router_aux_loss_coef=0.1)
    with contextlib.suppress(ImportError):
        from peft import LoraConfig, get_peft_model

        base = KINDS["llama"][0].from_pretrained(out["llama"])
        model = get_peft_model(base, LoraConfig(r=2, target_modules="all-linear"))
        for name, p in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(p)
        out["adapter"] = tmp_path_factory.mktemp("adapter")
        model.save_pretrained(out["adapter"])
        out["adapter of experts"] = tmp_path_factory.mktemp("adapter")
        adapted_experts(out["experts"]).save_pretrained(out["adapter of experts"])
    return out


def step(worker: Worker, arrays: dict, derivatives: dict, **want) -> list:
    """Trains one step. It returns the streams of its graph, the norm of its gradient, what each expert got, the loss of
    unbalanced loads, and the streams after it."""
    streams = {"streams": [k.removeprefix("d_") for k in derivatives], **want}
    before, meta = worker.call("/v1/models/m/forward", arrays, streams | {"hold": True})
    worker.call("/v1/models/m/backward", derivatives, {"whole_tokens": len(arrays["tokens"])})
    _, reply = worker.call("/v1/models/m/step", meta=ADAM | {"lr": 0.05})
    after = worker.call("/v1/models/m/forward", arrays, streams)[0]
    return [*before.values(), reply["grad_norm"], reply.get("loads", 0), meta.get("balance", 0), *after.values()]


def close(got: list, want: list, what: str) -> None:
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert np.abs(np.array(a) - np.array(b)).max() <= 2e-5 * max(1, np.abs(np.array(b)).max()), (what, i)


def test_gathered_weights_change_nothing(workers, paths, tmp_path) -> None:
    """Weights that stay gathered over a forward pass without a backward pass would be old after the next step."""
    arrays, derivatives = batch(sequences(0), 0)
    arrays["rank"] = np.arange(len(arrays["rank"]), dtype=np.int32) % 2
    out = []
    for more in ({}, {"gathered": True}):
        open_model(workers[1], "m", paths["llama"], tmp_path, **ADAMW, **more)
        for _ in range(2):
            out.append(step(workers[1], arrays, derivatives))
            workers[1].call("/v1/models/m/forward", arrays, {"streams": ["logprob"], "hold": True})
        workers[1].call("/v1/models/m", method="DELETE")
    close(out[2], out[0], "first step")
    close(out[3], out[1], "second step")


CASES = {name: {} for name in (*KINDS, "one head of keys", "sinks")}
CASES |= {
    "critic": {"head": "value"},
    "adapter": {"lora": True},
    "adapter of experts": {"lora": True},
    "recomputed": {"recompute": 1},
    "copies": {"strategy": "ddp"},
}


@pytest.mark.parametrize("case", CASES)
def test_parts_of_rows_compute_as_one_rank(workers, paths, tmp_path, case: str) -> None:
    arrays, derivatives = batch(sequences(1), 1)
    spec = SGD | CASES[case]
    path, head = paths.get(case, paths["llama"]), {}
    if case.startswith("adapter"):
        if case not in paths:
            pytest.skip("peft is missing")
        path, spec["lora"] = paths["experts" if case.endswith("experts") else "llama"], str(paths[case])
    if case == "critic":
        derivatives = {"d_value": derivatives["d_logprob"]}
        head = {"score.weight": np.random.default_rng(0).standard_normal((1, 32)).astype(np.float32)}
    got = []
    for worker, more in zip(workers, ({}, HALVES), strict=True):
        open_model(worker, "m", path, tmp_path, head, **spec, **more)
        got.append(step(worker, arrays, derivatives) + step(worker, arrays, derivatives))
        worker.call("/v1/models/m", method="DELETE")
    close(got[1], got[0], case)


def test_parts_of_rows_with_a_teacher_and_few_tokens(workers, paths, tmp_path) -> None:
    """A part without scored tokens joins all collectives, also of a teacher that holds whole rows itself."""
    tokens = np.arange(3, dtype=np.int32)
    arrays = {
        "tokens": tokens, "lengths": np.array([3], np.int32), "mask": np.array([0, 1, 0], np.uint8), "rank": tokens[:1],
        "temperature": np.ones(1, np.float32), "teacher": tokens[:1],
    }  # fmt: skip
    longer = batch(sequences(0), 0)
    longer[0]["teacher"] = np.zeros(len(longer[0]["rank"]), np.int32)
    got: list[list] = [[], []]
    want = {"divergence": "reverse_kl", "teachers": ["teacher"]}
    for worker, more, out in zip(workers, ({}, HALVES), got, strict=True):
        open_model(worker, "teacher", paths["one head of keys"], tmp_path)
        open_model(worker, "m", paths["llama"], tmp_path, **SGD, **more)
        for a, d in ((arrays, np.ones(3, np.float32)), (longer[0], longer[1]["d_logprob"])):
            out += step(worker, a, {"d_logprob": d, "d_divergence": d}, **want)
        for name in ("m", "teacher"):
            worker.call(f"/v1/models/{name}", method="DELETE")
    close(got[1], got[0], "teacher")


def test_state_of_parts_goes_on_alone(workers, paths, tmp_path) -> None:
    arrays, derivatives = batch(sequences(2), 2)
    one, two = workers
    open_model(two, "m", paths["llama"], tmp_path, **ADAMW, **HALVES)
    open_model(one, "m", paths["llama"], tmp_path, **ADAMW)
    step(two, arrays, derivatives)
    state = tmp_path / "state"
    state.mkdir()
    two.call("/v1/models/m/save", meta={"kind": "state", "dir": str(state)})
    one.call("/v1/models/m/load", meta={"kind": "state", "dir": str(state)})
    close(step(two, arrays, derivatives), step(one, arrays, derivatives), "resumed")
    for worker in workers:
        worker.call("/v1/models/m", method="DELETE")


def test_models_whose_rows_have_no_parts(workers, tmp_path) -> None:
    (tmp_path / "witness").write_text("nonce")
    three = LlamaForCausalLM(LlamaConfig(**(COMMON | {"num_attention_heads": 1, "num_key_value_heads": 1})))
    layers = {"layer_types": ["linear_attention", "full_attention"], "head_dim": 8}
    state = Qwen3_5ForCausalLM(Qwen3_5TextConfig(**COMMON, **layers, linear_num_key_heads=2, linear_num_value_heads=2))
    for name, model, words in (("a", three, "divide 1 heads"), ("b", state, "carries a state along a row")):
        model.save_pretrained(tmp_path / name)
        meta = {"file": str(tmp_path / "witness"), "nonce": "nonce"}
        error = workers[1].refused(
            "/v1/models/m", method="PUT", meta={"spec": {"path": str(tmp_path / name), **HALVES}, "witness": meta}
        )
        assert error.startswith("400 model ") and words in error, error
