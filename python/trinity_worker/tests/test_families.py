"""Models of all families: rows of several sequences have the numbers that transformers has for each of them."""

import numpy as np
import pytest
import torch
from families import FAMILIES, STATEFUL, VOCABULARY, tiny, witness
from test_worker import ADAM, Worker
from transformers import AutoModelForCausalLM

from trinity_worker import apart, attention
from trinity_worker.logits import PLAIN, Finish
from trinity_worker.tree import SHORTEST_STEM
from trinity_worker.wire import BadRequest

STREAMS = ["logprob", "entropy"]
EXACT = 1e-5  # of the scale
ADAMW = {"type": "adamw"}


def request(ranks: int) -> tuple[dict, dict]:
    """Returns the arrays of a forward and of a backward request. Two sequences begin alike."""
    r = np.random.default_rng(0)
    first = r.integers(0, VOCABULARY, 23, np.int32)
    second = np.concatenate([first[: SHORTEST_STEM + 2], r.integers(0, VOCABULARY, 6, np.int32)])
    all = [first, r.integers(0, VOCABULARY, 17, np.int32), second, r.integers(0, VOCABULARY, 2, np.int32)]
    lengths = np.array([len(s) for s in all], np.int32)
    mask = np.ones(lengths.sum(), np.uint8)
    mask[np.cumsum(lengths) - lengths] = 0
    arrays = {
        "tokens": np.concatenate(all), "lengths": lengths, "mask": mask, "temperature": np.ones(4, np.float32),
        "rank": np.array([0, 0, 0, ranks - 1], np.int32),
    }  # fmt: skip
    return arrays, {"d_" + s: r.standard_normal(len(mask)).astype(np.float32) for s in STREAMS}


def oracle(path, arrays: dict, derivatives: dict) -> tuple[dict, float, dict]:
    """Returns the streams of transformers' own code for single sequences, the largest logit, and the gradient by name."""
    model = AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager").eval()
    streams: dict = {s: [] for s in STREAMS}
    scale, loss, at = 0.0, 0.0, 0
    for n in arrays["lengths"]:
        ids = torch.from_numpy(arrays["tokens"][at : at + n].astype(np.int64))
        logits = model(ids[None], use_cache=False, output_router_logits=False).logits[0, :-1].float()
        logp = torch.log_softmax(logits, -1)
        got = {"logprob": logp.gather(1, ids[1:, None])[:, 0], "entropy": -(logp.exp() * logp).sum(-1)}
        for s in STREAMS:
            loss = loss + (got[s] * torch.from_numpy(derivatives["d_" + s][at + 1 : at + n])).sum()
            streams[s].append(np.concatenate([[0], got[s].detach().numpy()]))
        scale, at = max(scale, float(logits.detach().abs().max())), at + n
    loss.backward()
    gradient = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {s: np.concatenate(parts) for s, parts in streams.items()}, scale, gradient


def open_model(group, path, **spec) -> None:
    group.handle("open", "m", {}, {"spec": {"path": str(path), **spec}, "witness": witness(path)})


@pytest.mark.parametrize("recompute", [0, 4])
@pytest.mark.parametrize("family", FAMILIES)
def test_row_has_the_gradient_of_single_sequences(group, tmp_path, family: str, recompute: int) -> None:
    tiny(family, tmp_path, **({"router_aux_loss_coef": 0.0} if family == "gpt-oss" else {}))
    open_model(group, tmp_path, train=True, optimizer=ADAMW, chunk=16, recompute=recompute)
    network = group.models["m"].network
    assert group.status()["models"]["m"]["shares"] == (family not in STATEFUL)
    arrays, derivatives = request(1)
    want, scale, gradient = oracle(tmp_path, arrays, derivatives)
    got, _ = group.handle("forward", "m", arrays, {"streams": STREAMS, "hold": True})
    group.handle("backward", "m", derivatives, {"whole_tokens": len(arrays["tokens"])})
    for s in STREAMS:
        assert np.abs(got[s] - want[s]).max() <= EXACT * scale, s
    trained = {name.removeprefix("lm."): p.grad for name, p in network.trained().items() if p.grad is not None}
    largest = max(g.norm() for g in gradient.values())
    for name, g in gradient.items():
        assert (trained[name] - g).norm() <= 2 * EXACT * max(g.norm(), 1e-3 * largest), name


@pytest.fixture(scope="module", params=[1, 2], ids=["1 rank", "2 ranks"])
def worker(request):
    worker = Worker(request.param)
    worker.ranks = request.param
    yield worker
    worker.process.kill()
    worker.process.wait()


def put(worker, path, **spec) -> None:
    worker.call("/v1/models/m", meta={"spec": {"path": str(path), **spec}, "witness": witness(path)}, method="PUT")


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_compute_single_sequences(worker, tmp_path, family: str) -> None:
    tiny(family, tmp_path)
    put(worker, tmp_path, train=True, optimizer=ADAMW)
    arrays, derivatives = request(worker.ranks)
    want, scale, gradient = oracle(tmp_path, arrays, derivatives)
    got, meta = worker.call("/v1/models/m/forward", arrays, {"streams": STREAMS, "hold": True})
    assert ("balance" in meta) == (family == "gpt-oss")
    for s in STREAMS:
        assert np.abs(got[s] - want[s]).max() <= EXACT * scale, s
    worker.call("/v1/models/m/backward", derivatives, {"whole_tokens": len(arrays["tokens"])})
    step = worker.call("/v1/models/m/step", meta=ADAM)[1]
    assert step["applied"]
    norm = float(torch.stack([g.norm() for g in gradient.values()]).norm())
    if not meta:  # without a load-balancing loss
        assert abs(step["grad_norm"] - norm) <= EXACT * norm
    worker.call("/v1/models/m", method="DELETE")


def test_refused_model_leaves_the_ranks_as_they_were(worker, tmp_path) -> None:
    """Gemma 2 caps the logits of its attention."""
    path = tiny("gemma2", tmp_path)
    said = worker.refused("/v1/models/m", meta={"spec": {"path": str(path)}, "witness": witness(path)}, method="PUT")
    assert said.startswith(
        f"400 model {path} (gemma2): this worker cannot pack it: its attention has the arguments softcap"
    )
    assert worker.call("/v1", method="GET", step=0)[1]["models"] == {}


@pytest.mark.parametrize("family", FAMILIES)
def test_neighbours_divide_models_of_llamas_form(worker, tmp_path, family: str) -> None:
    if worker.ranks == 1:
        pytest.skip("neighbours are two ranks")
    path, spec = tiny(family, tmp_path), {"train": True, "optimizer": ADAMW, "tensor": 2}
    if family in ("lfm2", "lfm3", "qwen3_5", "granite hybrid", "gpt-oss", "olmo3", "gemma4", "phi3"):
        meta = {"spec": {"path": str(path), **spec}, "witness": witness(path)}
        said = worker.refused("/v1/models/m", meta=meta, method="PUT")
        assert said.startswith(f"400 model {path} (") and said.endswith(", so neighbours cannot divide it")
        return
    put(worker, path, **spec)
    arrays, derivatives = request(1)
    want, scale, gradient = oracle(tmp_path, arrays, derivatives)
    got, _ = worker.call("/v1/models/m/forward", arrays, {"streams": STREAMS, "hold": True})
    for s in STREAMS:
        assert np.abs(got[s] - want[s]).max() <= EXACT * scale, s
    worker.call("/v1/models/m/backward", derivatives)
    norm = float(torch.stack([g.norm() for g in gradient.values()]).norm())
    assert abs(worker.call("/v1/models/m/step", meta=ADAM)[1]["grad_norm"] - norm) <= EXACT * norm
    worker.call("/v1/models/m", method="DELETE")


def test_teacher_with_state_sees_sequences_whole(group, tmp_path) -> None:
    """Its student alone would share the stem that two sequences have."""
    paths = {"m": tiny("smollm3", tmp_path / "student"), "teacher": tiny("lfm3", tmp_path / "teacher")}
    for name, path in paths.items():
        spec = {"path": str(path), "train": name == "m", "optimizer": ADAMW}
        group.handle("open", name, {}, {"spec": spec, "witness": witness(path)})
    arrays, _ = request(1)
    meta = {"streams": ["divergence"], "divergence": "forward_kl", "teachers": ["teacher"]}
    got, _ = group.handle("forward", "m", arrays | {"teacher": np.zeros(4, np.int32)}, meta)
    models = [AutoModelForCausalLM.from_pretrained(p, attn_implementation="eager").eval() for p in paths.values()]
    want = []
    for ids in np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1]):
        ids = torch.from_numpy(ids.astype(np.int64))[None]
        with torch.no_grad():
            q, p = (torch.log_softmax(m(ids, use_cache=False).logits[0, :-1], -1) for m in models)
        want.append(np.concatenate([[0], (p.exp() * (p - q)).sum(-1).numpy()]))
    assert np.abs(got["divergence"] - np.concatenate(want)).max() <= EXACT


def test_adapters_of_one_base_with_state(group, tmp_path) -> None:
    peft = pytest.importorskip("peft")
    path, lora = tiny("qwen3_5", tmp_path / "model"), tmp_path / "adapter"
    config = peft.LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
    adapted = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(path), config).eval()
    adapted.save_pretrained(lora)
    spec = {"path": str(path), "lora": str(lora), "train": True, "optimizer": ADAMW}
    for name, own in (("base", {"path": str(path)}), ("shares", spec | {"base": "base"}), ("own", spec)):
        group.handle("open", name, {}, {"spec": own, "witness": witness(path)})
    arrays, _ = request(1)
    want = []
    for ids in np.split(arrays["tokens"], np.cumsum(arrays["lengths"])[:-1]):
        ids = torch.from_numpy(ids.astype(np.int64))
        with torch.no_grad():
            logp = torch.log_softmax(adapted(ids[None], use_cache=False).logits[0, :-1], -1)
        want.append(np.concatenate([[0], logp.gather(1, ids[1:, None])[:, 0].numpy()]))
    for name in ("shares", "own", "shares"):
        got, _ = group.handle("forward", name, arrays, {"streams": ["logprob"]})
        assert np.abs(got["logprob"] - np.concatenate(want)).max() <= EXACT


def without_sinks(*args):
    return BY_BRANCH(*args[:-1], None)


BY_BRANCH = attention._by_branch
# What makes families wrong if it is left out, and where it shows first.
WRONG = [(f, (apart, "_carries", lambda module: False), "second") for f in STATEFUL]
WRONG += [("gpt-oss", (attention, "_by_branch", without_sinks), "(first|second)")]
CHANGED = ("granite", "granite hybrid", "falcon_h1", "cohere", "gemma4")
WRONG += [(f, (Finish, "of", lambda config: PLAIN), "(first|second)") for f in CHANGED]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_proof_accepts(group, tmp_path, family: str, dtype: str) -> None:
    open_model(group, tiny(family, tmp_path), dtype=dtype)
    assert list(group.models) == ["m"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family,left_out,where", WRONG, ids=[f"{w[0]}-{w[1][1]}" for w in WRONG])
def test_proof_refuses(group, tmp_path, monkeypatch, family: str, left_out: tuple, where: str, dtype: str) -> None:
    monkeypatch.setattr(*left_out)
    sentence = rf"a row of two sequences gives other logits than each alone \(\S+ of \S+ at token \d+ of the {where}\)"
    with pytest.raises(BadRequest, match=rf"^model {tmp_path} \(\w+\): {sentence}: this worker cannot pack it$"):
        open_model(group, tiny(family, tmp_path), dtype=dtype)
    assert not group.models


def test_critic_is_proved_by_its_states(group, tmp_path, monkeypatch) -> None:
    score = {"score.weight": np.ones((1, 64), np.float32)}
    meta = {"spec": {"path": str(tiny("gpt-oss", tmp_path)), "head": "value"}, "witness": witness(tmp_path)}
    group.handle("open", "m", score, meta)
    monkeypatch.setattr(attention, "_by_branch", without_sinks)
    with pytest.raises(BadRequest, match="gives other states than each alone"):
        group.handle("open", "n", score, meta)


def test_family_without_critics_is_refused(group, tmp_path) -> None:
    meta = {"spec": {"path": str(tiny("lfm2", tmp_path)), "head": "value"}, "witness": witness(tmp_path)}
    with pytest.raises(BadRequest, match="transformers has no AutoModelForTokenClassification of this family"):
        group.handle("open", "m", {"score.weight": np.ones((1, 64), np.float32)}, meta)


def test_finish_of_another_direction_is_refused(group, tmp_path) -> None:
    """HyperCLOVAX multiplies by what Granite divides by."""
    with pytest.raises(BadRequest, match="hyperclovax.*other logits than each alone"):
        open_model(group, tiny("hyperclovax", tmp_path))
