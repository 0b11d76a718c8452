"""Models that read images: rows with images have the numbers that transformers has for each sequence."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText

pytest.importorskip("PIL")

from test_worker import ADAM, Worker
from vlms import PLACEHOLDER, VLMS, Request, tiny, witness

from trinity_worker import images
from trinity_worker.batch import Batch
from trinity_worker.wire import BadRequest

EXACT = 1e-5
TRAIN = {"train": True, "optimizer": {"type": "adamw"}, "chunk": 16}


def mixed(family: str, path, ranks: int = 1) -> Request:
    """Two replies to one prompt with an image, the same prompt with another image, a text, and two images in a sequence. Of
    two ranks the second has text alone."""
    r = Request(family, path)
    begin, question = r.text(5), r.text(14)
    r.add(begin, 0, question, r.text(6))
    r.add(begin, 0, question, r.text(9))
    r.add(begin, 1, question, r.text(4))
    r.add(r.text(12), rank=ranks - 1)
    r.add(r.text(3), 1, r.text(2), 0, r.text(7))
    return r


def derivatives(arrays: dict) -> np.ndarray:
    d = np.random.default_rng(1).standard_normal(len(arrays["tokens"])).astype(np.float32)
    return d * arrays["mask"]


def open_model(group, path, **spec):
    group.handle("open", "m", {}, {"spec": {"path": str(path), **spec}, "witness": witness(path)})
    return group.models["m"].network


def compare(network, gradient: dict, vision: bool) -> None:
    trained = {n.removeprefix("lm."): p.grad for n, p in network.trained().items() if p.grad is not None}
    seeing = {n for part in network.seeing for n in (id(p) for p in part.parameters())}
    largest = max(g.norm() for g in gradient.values())
    count = 0
    for name, g in gradient.items():
        if id(network.inner.get_parameter(name)) in seeing and not vision:
            assert name not in trained
            continue
        count += 1
        assert (trained[name] - g).norm() <= 2 * EXACT * max(g.norm(), 1e-2 * largest), name
    assert count == len(trained)


@pytest.mark.parametrize("vision", [False, True], ids=["frozen", "trained"])
@pytest.mark.parametrize("family", VLMS)
def test_row_has_the_gradient_of_single_sequences(group, tmp_path, family: str, vision: bool) -> None:
    network = open_model(group, tiny(family, tmp_path), vision=vision, recompute=1, **TRAIN)
    request = mixed(family, tmp_path)
    arrays = request.arrays()
    d = derivatives(arrays)
    want, gradient = request.oracle(d)
    got, _ = group.handle("forward", "m", arrays, {"streams": ["logprob"], "hold": True})
    assert np.abs(got["logprob"] - want * arrays["mask"]).max() <= EXACT * np.abs(want).max()
    group.handle("backward", "m", {"d_logprob": d}, {})
    compare(network, gradient, vision)


def test_stems_end_where_images_differ(group, tmp_path) -> None:
    """Two replies to one prompt share its image. Another image has the same tokens and nothing else in common."""
    network = open_model(group, tiny("qwen2_5_vl", tmp_path))
    request = mixed("qwen2_5_vl", tmp_path)
    arrays = request.arrays()
    pack = Batch(arrays, network.shares, network.eye).pack(0, torch.device("cpu"))
    stem = 5 + request.counts[0] + 14
    assert pack.ids.shape[1] == len(arrays["tokens"]) - stem
    assert len(pack.seen.rows) == 2 * request.counts[0] + 2 * request.counts[1]
    assert len(pack.seen.values["pixel_values"]) == 4 * (request.counts[0] + request.counts[1])  # each once


def test_sampled_placeholder_stays_a_token(group, tmp_path) -> None:
    """A policy may sample the token that stands for images. The model then sees the token."""
    for family in VLMS:
        open_model(group, tiny(family, tmp_path / family))
        request = mixed(family, tmp_path / family)
        arrays = request.arrays()
        before, _ = group.handle("forward", "m", arrays, {"streams": ["logprob"]})
        last = len(request.sequences[0]) - 1
        assert arrays["mask"][last]
        arrays["tokens"][last] = PLACEHOLDER
        after, _ = group.handle("forward", "m", arrays, {"streams": ["logprob"]})
        others = np.arange(len(arrays["tokens"])) != last
        assert np.abs((before["logprob"] - after["logprob"])[others]).max() <= EXACT * 10
        assert before["logprob"][last] != after["logprob"][last]
        group.handle("drop", "m", {}, {})


def test_requests_that_cannot_be_computed(group, tmp_path) -> None:
    path = tiny("qwen2_5_vl", tmp_path)
    open_model(group, path)
    good = mixed("qwen2_5_vl", tmp_path).arrays()
    few, sequence = good["spans"].copy(), int(good["spans"][0, 3])
    few[0, 3] -= 1
    moved, gone, twice = (good["spans"].copy() for _ in range(3))
    moved[0, 2] += 1
    gone[0, 1] = 2
    twice[1] = twice[0]
    files = good["images"].tobytes()
    cut = np.frombuffer(files[:40] + bytes(len(files) - 40), np.uint8)
    other = good["image_grids"].copy()
    other[0] = 1, 2, 8
    for change, why in (
        (
            {"spans": few},
            rf"sequence 0 has {sequence - 1} tokens at 5 for image 0, of which the model makes {sequence} features",
        ),
        ({"spans": moved}, "the tokens of an image at 6 of sequence 0 are not all 90"),
        ({"spans": gone}, "spans name sequence 0 and image 2"),
        ({"spans": twice}, "overlaps another one"),
        (
            {"spans": good["spans"][1:]},
            rf"sequence 0 has {sequence} placeholder tokens \(90\) without an image, the first at token 5",
        ),
        ({"images": cut}, "image 0: an image of [0-9]+ bytes cannot be read"),
        (
            {"image_grids": other},
            "image 0 becomes 6×4 patches .* had 2×8 when it was sampled: is preprocessor_config.json",
        ),
        ({"image_bytes": good["image_bytes"] + 1}, "image_bytes must add up"),
        ({"image_bytes": good["image_bytes"].astype(np.float32)}, "array 'image_bytes' is missing or of another type"),
    ):
        with pytest.raises(BadRequest, match=why):
            group.handle("forward", "m", good | change, {"streams": ["logprob"]})
    without = {k: v for k, v in good.items() if k not in images.ARRAYS}
    with pytest.raises(BadRequest, match="placeholder tokens"):
        group.handle("forward", "m", without, {"streams": ["logprob"]})


def test_models_that_cannot_be_opened(group, tmp_path, open_tiny) -> None:
    path = tiny("smolvlm", tmp_path / "vlm")
    for spec, why in (
        ({"head": "value"}, "reads images, which no critic or reward model here does"),
        ({"vision": True}, "its tower is trained with all weights"),
        ({"vision": True, "lora": str(path), **TRAIN}, "its tower is trained with all weights"),
    ):
        with pytest.raises(BadRequest, match=why):
            group.handle(
                "open", "m", {"score.weight": np.zeros((1, 32), np.float32)},
                {"spec": {"path": str(path), **spec}, "witness": witness(path)},
            )  # fmt: skip
    open_tiny("text")
    with pytest.raises(BadRequest, match="reads no images: its config.json has no vision_config"):
        arrays = mixed("smolvlm", path).arrays()
        group.handle("forward", "text", arrays | {"tokens": arrays["tokens"] % 16}, {"streams": ["logprob"]})
    with pytest.raises(BadRequest, match="reads no images: it has no tower"):
        open_tiny("other", vision=True)
    for text, why in (
        (
            '{"image_processor_type": "SmolVLMImageProcessor"}',
            "^the image processor of .* cuts an image into 9: set do_image",
        ),
        ("no JSON", "its image processor does not load"),
    ):
        (path / "preprocessor_config.json").write_text(text)
        with pytest.raises(BadRequest, match=why):
            open_model(group, path)


def test_wrong_place_of_features_is_found(group, tmp_path, monkeypatch) -> None:
    """The proof of a model compares rows with images, too."""
    right = images.Eye.positions
    for family in ("qwen2_5_vl", "qwen3_vl"):
        path = tiny(family, tmp_path / family)
        with monkeypatch.context() as m:
            m.setattr(images.Eye, "positions", lambda self, count, spans, grids: right(self, count, spans[:0], grids))
            with pytest.raises(BadRequest, match="gives other logits than each alone .*: this worker cannot pack it"):
                open_model(group, path)


def test_adapter_is_of_the_text_alone(group, tmp_path) -> None:
    peft = pytest.importorskip("peft")
    for family, text in (("smolvlm", "text_model"), ("qwen3_vl", "language_model")):
        path, lora = tiny(family, tmp_path / family), tmp_path / (family + "-adapter")
        config = peft.LoraConfig(r=2, target_modules=rf".*{text}.*(q_proj|down_proj)", init_lora_weights=False)
        adapted = peft.get_peft_model(AutoModelForImageTextToText.from_pretrained(path), config).eval()
        adapted.save_pretrained(lora)
        said = peft.LoraConfig.from_pretrained(lora)
        said.target_modules = ["q_proj", "down_proj"]  # names that modules of the tower have, too
        said.save_pretrained(lora)
        network = open_model(group, path, lora=str(lora), **TRAIN)
        request = mixed(family, path)
        arrays = request.arrays()
        d = derivatives(arrays)
        want, gradient = request.oracle(d, adapted)
        got, _ = group.handle("forward", "m", arrays, {"streams": ["logprob"], "hold": True})
        assert np.abs(got["logprob"] - want * arrays["mask"]).max() <= EXACT * np.abs(want).max()
        group.handle("backward", "m", {"d_logprob": d}, {})
        trained = {n.removeprefix("lm."): p.grad for n, p in network.trained().items()}
        assert trained.keys() == {n for n in gradient if "lora_" in n} and all(text in n for n in trained)
        for name, g in trained.items():
            assert (gradient[name] - g).norm() <= 1e-4 * gradient[name].norm(), name
        group.handle("save", "m", {}, {"kind": "model", "dir": str(lora)})
        assert set(peft.LoraConfig.from_pretrained(lora).target_modules) == {
            n.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for n in trained
        }
        group.handle("drop", "m", {}, {})


@pytest.fixture(scope="module", params=[1, 2], ids=["1 rank", "2 ranks"])
def worker(request):
    worker = Worker(request.param)
    worker.ranks = request.param
    yield worker
    worker.process.kill()
    worker.process.wait()


@pytest.mark.parametrize("strategy", ["fsdp2", "ddp"])
@pytest.mark.parametrize("vision", [False, True], ids=["frozen", "trained"])
@pytest.mark.parametrize("family", VLMS)
def test_ranks_compute_single_sequences(worker, tmp_path, family: str, vision: bool, strategy: str) -> None:
    """The second of two ranks has no image in the first micro-batch, and no sequence in the second one."""
    path = tiny(family, tmp_path)
    spec = {"path": str(path), "vision": vision, "strategy": strategy, **TRAIN}
    worker.call("/v1/models/m", meta={"spec": spec, "witness": witness(path)}, method="PUT")
    request = mixed(family, path, worker.ranks)
    arrays = request.arrays()
    d = derivatives(arrays)
    want, gradient = request.oracle(d)
    for ranks in (arrays["rank"], np.zeros(5, np.int32)):
        given = arrays | {"rank": ranks}
        got, _ = worker.call("/v1/models/m/forward", given, {"streams": ["logprob"], "hold": True})
        assert np.abs(got["logprob"] - want * arrays["mask"]).max() <= EXACT * np.abs(want).max()
        worker.call("/v1/models/m/backward", {"d_logprob": d / 2})
    plain = AutoModelForImageTextToText.from_pretrained(path)
    seeing = {id(p) for part in plain.model.children() if not hasattr(part, "embed_tokens") for p in part.parameters()}
    mine = [g for n, g in gradient.items() if vision or id(plain.get_parameter(n)) not in seeing]
    norm = float(torch.stack([g.norm() for g in mine]).norm())
    assert abs(worker.call("/v1/models/m/step", meta=ADAM)[1]["grad_norm"] - norm) <= 2 * EXACT * norm
    saved = tmp_path / "saved"
    saved.mkdir()
    worker.call("/v1/models/m/save", meta={"kind": "model", "dir": str(saved)})
    after = AutoModelForImageTextToText.from_pretrained(saved)
    for name, p in plain.named_parameters():
        changed = not torch.equal(after.get_parameter(name), p)
        assert changed == (vision or id(p) not in seeing), name
    worker.call("/v1/models/m", method="DELETE")
