"""What can be wrong with a request. Rank 0 finds it out before any rank acts."""

import os
import socket
from dataclasses import fields
from typing import Any

import numpy as np

from . import images, loading
from .head import DIVERGENCES, JSD
from .layout import FSDP2, STRATEGIES
from .model import MOMENTS, Model
from .network import DTYPES, HEADS, Spec, check_config, sees
from .wire import Arrays, BadRequest

MAX_CHUNK = 1 << 20


def spec_of(meta: dict[str, Any], arrays: Arrays, world: int, models: dict[str, Model]) -> Spec:
    """Returns the spec of a model to open."""
    given = meta.get("spec")
    known = {f.name for f in fields(Spec)}
    if not isinstance(given, dict) or not set(given) <= known or "path" not in given:
        raise BadRequest(f"spec must be an object with a path and keys among {', '.join(sorted(known))}")
    spec = Spec(**given)
    for value, choices in (
        (spec.head, ("", *HEADS)),
        (spec.dtype, DTYPES),
        (spec.compute, DTYPES),
        (spec.strategy, STRATEGIES),
    ):
        if value not in choices:
            raise BadRequest(f"spec has the value {value!r}; expected one of {', '.join(choices)}")
    if spec.train and spec.optimizer.get("type") not in MOMENTS:
        raise BadRequest(f"optimizer {spec.optimizer.get('type')!r}; expected one of {', '.join(MOMENTS)}")
    if spec.tensor < 1 or world % spec.tensor:
        raise BadRequest(f"tensor is {spec.tensor}; expected a divisor of the {world} ranks")
    if spec.sequence < 1 or world % (spec.tensor * spec.sequence):
        raise BadRequest(f"sequence is {spec.sequence}; expected that it and tensor divide the {world} ranks")
    if spec.tensor > 1 and (spec.lora or spec.strategy != FSDP2):
        raise BadRequest("neighbours divide the matrices of a whole model under fsdp2 only")
    if not 1 <= spec.chunk <= MAX_CHUNK:
        raise BadRequest(f"chunk is {spec.chunk}; expected 1 to {MAX_CHUNK}")
    if spec.head and spec.lora:
        raise BadRequest("a critic or a reward model has no adapter: all its weights are trained")
    if spec.head and "score.weight" not in arrays:
        raise BadRequest("a critic or a reward model needs the array score.weight")
    if spec.base:
        check_base(spec, world, models)
    check_sight(spec, meta)
    vocabulary = check_config(spec.path, spec.head)
    check_vision(spec)
    if vocabulary % spec.tensor:
        raise BadRequest(f"{spec.tensor} neighbours cannot divide a vocabulary of {vocabulary} equally")
    if spec.sequence > 1:
        check_heads(spec.path, loading.config_of(spec.path).get_text_config(), spec.tensor, spec.sequence)
    return spec


def check_vision(spec: Spec) -> None:
    """Requires that a model that reads images is opened in a way in which it does."""
    config = loading.config_of(spec.path)
    name = f"model {spec.path} ({config.model_type})"
    if not sees(config):
        if spec.vision:
            raise BadRequest(f"{name} reads no images: it has no tower to train")
        return
    if spec.vision and (not spec.train or spec.lora):
        raise BadRequest(f"{name}: its tower is trained with all weights, not beside an adapter")
    if spec.sequence > 1:
        raise BadRequest(
            f"{name} reads images, whose tokens may lie in the parts of two ranks: ranks cannot hold parts of a row"
        )
    if spec.tensor > 1:
        raise BadRequest(f"{name} reads images, and neighbours divide no tower: take fsdp2")


def check_heads(path: str, config: Any, tensor: int, sequence: int) -> None:
    """Requires that ranks can exchange the tokens of a row for its heads."""
    heads = config.num_attention_heads // tensor
    if heads % sequence:
        raise BadRequest(f"model {path}: {sequence} ranks that hold parts of a row cannot divide {heads} heads equally")


def check_base(spec: Spec, world: int, models: dict[str, Model]) -> None:
    """Requires that an adapter can share the weights of another model."""
    base = models.get(spec.base)
    if world > 1 or not spec.lora or not spec.train:
        raise BadRequest("base is for the adapters that one rank trains")
    if base is None or base.spec.train or base.spec.head or base.spec.dtype != "float32":
        raise BadRequest(f"base {spec.base!r} is no open model with frozen weights in float32")
    for key in ("path", "compute", "recompute"):
        if getattr(base.spec, key) != getattr(spec, key):
            raise BadRequest(f"base {spec.base!r} has another {key}")
    if spec.recompute and spec.compute != base.spec.dtype:
        raise BadRequest(
            "adapters of one base compute no activations again in bfloat16: leave recompute out, or compute in float32"
        )


def check_sight(spec: Spec, meta: dict[str, Any]) -> None:
    """Requires that this rank's machine has the model, and that a file of the run's directory holds what the driver has
    just written into it."""
    witness, here = meta.get("witness"), f"the worker on {socket.gethostname()}"
    if not isinstance(witness, dict):
        raise BadRequest("witness must be an object with file and nonce")
    for path in filter(None, (spec.path, spec.lora)):
        if not os.path.isdir(path):
            raise BadRequest(f"{here} sees no directory {path}")
    try:
        with open(witness["file"], "rb") as file:
            found = file.read(1000)
    except (OSError, KeyError, TypeError) as e:
        raise BadRequest(f"{here} does not see the run's directory: {e}") from e
    if found != str(witness.get("nonce")).encode():
        raise BadRequest(f"{here} sees another directory than the driver's: {witness['file']} is not the driver's file")


def _array(arrays: Arrays, name: str, dtype: type, length: int | None = None, dimensions: int = 1) -> np.ndarray:
    array = arrays.get(name)
    if array is None:
        raise BadRequest(f"array {name!r} is missing")
    if array.dtype != dtype or array.ndim != dimensions:
        raise BadRequest(
            f"array {name!r} is {array.dtype} of {array.ndim} dimensions; expected {np.dtype(dtype)} of {dimensions}"
        )
    if length is not None and len(array) != length:
        raise BadRequest(f"array {name!r} has {len(array)} entries; expected {length}")
    return array


def shapes_of(arrays: Arrays, streams: list[str]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the streams of a forward request."""
    one = arrays["tokens"].shape
    return {s: arrays["targets"].shape if s == "logprob" and "targets" in arrays else one for s in streams}


def check_forward(model: Model, arrays: Arrays, meta: dict[str, Any], models: dict[str, Model]) -> None:
    tokens = _array(arrays, "tokens", np.int32)
    lengths = _array(arrays, "lengths", np.int32)
    mask, n = _array(arrays, "mask", np.uint8, len(tokens)), len(lengths)
    if n == 0 or lengths.min() < 1 or int(lengths.sum()) != len(tokens):
        raise BadRequest(f"lengths must be positive and add up to the {len(tokens)} tokens")
    if mask[np.cumsum(lengths) - lengths].any():
        raise BadRequest("mask scores the first token of a sequence, which nothing predicts")
    vocabulary = model.network.config.vocab_size
    if tokens.min() < 0 or tokens.max() >= vocabulary:
        raise BadRequest(f"tokens are outside the vocabulary of {vocabulary}")
    if eye := model.network.eye:
        if images.ARRAYS[0] in arrays:
            images.check(eye, arrays, lengths)
        images.check_placeholders(eye, arrays, lengths)
    elif images.ARRAYS[0] in arrays:
        raise BadRequest(f"model {model.spec.path} reads no images: its config.json has no vision_config")
    if "targets" in arrays:
        targets = _array(arrays, "targets", np.int32, len(tokens), dimensions=2)
        if model.spec.head:
            raise BadRequest("a critic or a reward model has no log-probabilities of targets")
        if not targets.shape[1] or targets.max() >= vocabulary:
            raise BadRequest(f"targets are none, or outside the vocabulary of {vocabulary}; one below 0 is none")
    if "experts" in arrays:
        check_experts(model, _array(arrays, "experts", np.int32, len(tokens), dimensions=2))
    ranks = _array(arrays, "rank", np.int32, n)
    if ranks.min() < 0 or ranks.max() >= model.rows:
        raise BadRequest(f"rank must be 0 to {model.rows - 1}")
    temperature = _array(arrays, "temperature", np.float32, n)
    if not (np.isfinite(temperature) & (temperature > 0)).all():
        raise BadRequest("temperature must be positive")
    streams = meta.get("streams")
    if not isinstance(streams, list) or not streams or not set(streams) <= set(model.streams):
        raise BadRequest(f"streams is {streams!r}; expected some of {', '.join(model.streams)}")
    if meta.get("hold") and not model.spec.train:
        raise BadRequest("a model that is not trained holds no graph")
    if meta.get("reference") and (not model.spec.lora or meta.get("hold")):
        raise BadRequest("reference turns an adapter off, for values without a gradient: this model has none")
    if "divergence" in streams:
        check_divergence(model, arrays, meta, models, n)


def check_experts(model: Model, experts: np.ndarray) -> None:
    replay, config = model.network.replay, model.network.inner.config
    if replay is None:
        raise BadRequest("the model was opened without replay, and the request gives experts")
    width, most = len(replay.routers) * config.num_experts_per_tok, config.num_experts
    if experts.shape[1] != width or experts.max() >= most:
        raise BadRequest(f"experts must be {width} for each token, below {most}; one below 0 is none")


def check_divergence(model: Model, arrays: Arrays, meta: dict[str, Any], models: dict[str, Model], n: int) -> None:
    if meta.get("divergence") not in DIVERGENCES:
        raise BadRequest(f"divergence is {meta.get('divergence')!r}; expected one of {', '.join(DIVERGENCES)}")
    if meta["divergence"] == JSD and not 0 < float(meta.get("beta", 0)) < 1:
        raise BadRequest(f"beta is {meta.get('beta')!r}; expected more than 0 and less than 1")
    names = meta.get("teachers")
    if not isinstance(names, list) or not names:
        raise BadRequest("teachers must name the models to compare with")
    vocabulary = model.network.config.vocab_size
    for name in names:
        teacher = models.get(name)
        if teacher is None or teacher is model or teacher.spec.head:
            raise BadRequest(f"teacher {name!r} is no other language model of this worker")
        check_heads(teacher.spec.path, teacher.network.config, teacher.spec.tensor, model.spec.sequence)
        if model.spec.sequence > 1 and not teacher.network.shares:
            raise BadRequest(f"teacher {name!r} carries a state along a row, of which its student's ranks hold parts")
        if (eye := model.network.eye) and images.ARRAYS[0] in arrays and not eye.same(teacher.network.eye):
            raise BadRequest(f"teacher {name!r} does not read images as its student does")
        if teacher.network.config.vocab_size < vocabulary:
            raise BadRequest(f"teacher {name!r} has a smaller vocabulary than its student, {vocabulary}")
    teacher_of = _array(arrays, "teacher", np.int32, n)
    if teacher_of.min() < 0 or teacher_of.max() >= len(names):
        raise BadRequest(f"teacher must be 0 to {len(names) - 1}")


def check_backward(model: Model, arrays: Arrays, meta: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> None:
    if model.held is None:
        raise BadRequest("no graph is held: send forward with hold before")
    if model.network.aux_loss and not (isinstance(meta.get("whole_tokens"), int) and meta["whole_tokens"] > 0):
        raise BadRequest("whole_tokens must be the tokens of the step: this model has a load-balancing loss")
    for name, array in arrays.items():
        stream = name.removeprefix("d_")
        if name == stream or stream not in model.streams or stream == "discriminator":
            raise BadRequest(f"array {name!r} is the derivative by no stream of this model")
        shape = shapes.get(stream)
        if shape is None:
            raise BadRequest(f"array {name!r} is the derivative by a stream that forward was not asked for")
        _array(arrays, name, np.float32, shape[0], dimensions=len(shape))
        if array.shape != shape:
            raise BadRequest(f"array {name!r} has the shape {list(array.shape)}; expected {list(shape)}")
        finite = np.isfinite(array)
        if not finite.all():
            raise BadRequest(f"array {name!r} has an entry that is not finite at {int(np.argmin(finite))}")


def check_step(model: Model, meta: dict[str, Any]) -> dict[str, float]:
    if not model.spec.train:
        raise BadRequest("this model is not trained")
    out = {}
    for key in ("lr", "beta1", "beta2", "eps", "weight_decay", "clip_norm"):
        value = meta.get(key)
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise BadRequest(f"{key} is {value!r}; expected a number")
        if value < 0 and key != "clip_norm" or value >= 1 and key.startswith("beta"):
            raise BadRequest(f"{key} is {value!r}, which is outside of its range")
        out[key] = float(value)
    return out


def check_files(model: Model, verb: str, meta: dict[str, Any]) -> tuple[str, str]:
    """Returns the kind and the directory of a save or a load."""
    kind, directory = str(meta.get("kind")), meta.get("dir")
    kinds = ("state", "model", "published") if verb == "save" else ("state",)
    if kind not in kinds:
        raise BadRequest(f"kind is {kind!r}; expected one of {', '.join(kinds)}")
    if not isinstance(directory, str) or not os.path.isdir(directory):
        raise BadRequest(f"this worker sees no directory {directory}")
    if kind == "state" and not model.spec.train:
        raise BadRequest("a model that is not trained has no state")
    if verb == "load" and not os.path.exists(os.path.join(directory, ".metadata")):
        raise BadRequest(f"{directory} holds no state of this worker")
    if kind == "published" and not model.offered:
        raise BadRequest("no version was offered")
    return kind, directory
