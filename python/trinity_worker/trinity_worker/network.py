"""A language model, a critic or a reward model, as the root of what is sharded over the ranks."""

import copy
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.func import functional_call
from torch.nn.functional import embedding
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from . import adapted_experts, attention, compiled, images, loading, proof
from .apart import Apart
from .batch import Pack
from .copies import Copies
from .experts import imbalance, loads
from .head import Head, Want
from .images import Eye
from .layout import DDP, FSDP2, Layout
from .loading import ADAPTER
from .logits import PLAIN, Finish
from .replay import Replay
from .tensor import Vocabulary, divide, misfit
from .wire import Arrays, BadRequest

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
VALUE, SCORE = "value", "score"
# What reads one number from a state: at each token, or as a reward model of whole sequences.
HEADS = {VALUE: AutoModelForTokenClassification, SCORE: AutoModelForSequenceClassification}
# Rotary embeddings that depend on the length of the sequence, which a packed row does not have.
LENGTH_ROPES = ("dynamic", "longrope")


@dataclass
class Spec:
    """How the driver wants a model opened. The fields are those of PUT /v1/models/{name}."""

    path: str  # a Hugging Face directory with weights
    head: str = ""  # VALUE for a critic, SCORE for a reward model
    lora: str = ""  # a PEFT directory whose adapter is trained instead of the weights
    base: str = ""  # an open model of the same path, which is not trained: the adapter shares its weights
    train: bool = False
    dtype: str = "float32"  # of the weights of a model that is not trained
    compute: str = "float32"  # of the matrix products
    recompute: int = 0  # layers, from the first, that compute their activations again in the backward pass
    chunk: int = 1024  # rows of the vocabulary head at a time
    optimizer: dict[str, Any] = field(default_factory=dict)  # type, momentum, nesterov
    keep: bool = False  # keep a copy of the offered weights while newer ones are trained
    param_offload: bool = False  # weights and gradients lie in host memory while other models are in use
    optimizer_offload: bool = False  # moments lie in host memory but for a step
    strategy: str = FSDP2  # how the ranks divide the model: FSDP2 or DDP
    gathered: bool = False  # FSDP2 keeps gathered weights from the forward to the end of the backward pass
    compile: bool = False  # the layers and the head, where torch.compile works
    replay: bool = False  # tokens have the experts that requests give; see replay.py
    sequence: int = 1  # ranks that hold the parts of each row
    tensor: int = 1  # neighbouring ranks that divide each matrix; FSDP2 divides the parts
    vision: bool = False  # train what makes features of images, too


def check_config(path: str, head: str) -> int:
    """Returns the size of the vocabulary. It refuses models that would not load, or that rows cannot hold."""
    try:
        config = loading.config_of(path)
    except Exception as e:  # transformers has errors of its own
        raise BadRequest(f"model {path}: {e}") from e
    if sees(config) and head:
        raise BadRequest(f"model {path} ({config.model_type}) reads images, which no critic or reward model here does")
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    for one in (rope, *(r for r in rope.values() if isinstance(r, dict))):  # or one for each type of layer
        if one.get("rope_type") in LENGTH_ROPES:
            raise BadRequest(
                f"model {path} has the rope type {one['rope_type']!r}, which depends on a sequence's length"
            )
    known: Any = HEADS[head]._model_mapping if head else ()
    if head and type(config) not in known:
        raise BadRequest(
            f"model {path} ({config.model_type}): transformers has no {HEADS[head].__name__} of this family: "
            "take a critic or a reward model of another family"
        )
    vocabulary = getattr(text, "vocab_size", None)
    if not isinstance(vocabulary, int):
        raise BadRequest(f"model {path} ({config.model_type}) has no vocab_size in its configuration")
    return vocabulary


def sees(config: Any) -> bool:
    """Reports whether a model reads images."""
    return getattr(config, "vision_config", None) is not None


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor that may be sharded. All ranks must call it."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def sharing(model: Any) -> Any:
    """Returns a copy of a model that has the same weights in memory."""
    copied = copy.deepcopy(model, {id(t): t for t in chain(model.parameters(), model.buffers())})
    for module in copied.modules():
        module.__dict__.pop("forward", None)  # a compiled one computes with the modules of the original
    return copied


class Network(nn.Module):
    """Decoder and head. One call of forward holds both, because FSDP gathers the head's weight for the root's forward."""

    def __init__(self, spec: Spec, arrays: Arrays, layout: Layout, base: "Network | None" = None) -> None:
        super().__init__()
        self.spec = spec
        # Masters are float32: AdamW on bfloat16 weights would lose small updates.
        dtype = torch.float32 if spec.train else DTYPES[spec.dtype]
        config = loading.config_of(spec.path)
        if spec.head:
            config.num_labels = 1
        packed: Any = {"text_config": attention.NAME, "vision_config": "sdpa"} if sees(config) else attention.NAME
        kwargs: dict[str, Any] = {"dtype": dtype, "attn_implementation": packed}
        if base is not None:
            self.lm: Any = sharing(base.lm)
        elif spec.head:
            self.lm = loading.build(HEADS[spec.head], config, spec.path, **kwargs)
            self._set_score(arrays)
        else:
            of = AutoModelForImageTextToText if sees(config) else AutoModelForCausalLM
            self.lm = loading.build(of, config, spec.path, **kwargs)
        self.packed = packed
        self.eye = Eye(spec.path, self.body) if sees(config) else None
        if self.projection.bias is not None and not spec.head:
            raise BadRequest(f"model {spec.path} has a bias in its vocabulary head, which is not supported")
        self.lm.eval()  # no dropout
        if spec.tensor > 1 and (why := misfit(self.decoder)):
            raise BadRequest(
                f"model {spec.path} ({self.inner.config.model_type}): {why}, so neighbours cannot divide it"
            )
        self.finish = PLAIN if spec.head else Finish.of(self.config)
        self.apart = Apart(self.lm)
        self.replay: Replay | None = None
        if spec.sequence > 1 and self.apart.modules:
            raise BadRequest(
                f"model {spec.path} ({self.inner.config.model_type}): {self.apart.modules[0]} carries a state along a row, "
                "so ranks cannot hold parts of it"
            )
        if base is None:
            proof.require(self, layout)
        if spec.replay:
            self.replay = self._replay()
        self.lm.requires_grad_(spec.train and not spec.lora)
        if self.eye and not spec.vision:
            for part in self.seeing:
                part.requires_grad_(False)
        if spec.lora:
            self.lm = self._adapted()
            adapted_experts.attach(self.lm, f"{spec.path} ({self.inner.config.model_type})")
        self.lm.eval()
        self.loads: torch.Tensor | None = None  # [layers, experts] tokens that experts got since the last step
        self._recompute()
        if spec.tensor > 1:
            divide(self.decoder, None if spec.head else self.projection, layout.grid(spec.tensor)["tensor"])
            self.lm.requires_grad_(spec.train)  # of the new parameters
        # A copy that is not trained stands alone.
        divided = layout.world > spec.tensor and (spec.train or spec.strategy != DDP)
        # One rank computes with a copy of its weights. FSDP's hooks cost time at each layer, but where layers are
        # computed again they give the copy a second time.
        self.copies: Copies | None = None
        self.casts = not divided and DTYPES[spec.compute] != dtype and not spec.recompute
        if divided or spec.recompute and DTYPES[spec.compute] != dtype:
            self._shard(layout.data(spec.strategy, spec.tensor))
        loading.fill(self, self.inner, spec.path, spec.lora, layout.device)
        # Neighbours divide matrices by hooks, and exchange parts of rows, which is not compiled here.
        self.compiled = (
            spec.compile and not spec.replay and spec.tensor * spec.sequence == 1 and compiled.works(layout.device)
        )
        if self.compiled:
            compiled.layers(self.decoder)

    @property
    def inner(self) -> PreTrainedModel:
        """The model without its adapter's wrapper."""
        return self.lm if isinstance(self.lm, PreTrainedModel) else self.lm.get_base_model()

    @property
    def body(self) -> Any:
        """The model below its head."""
        return getattr(self.inner, self.inner.base_model_prefix)

    @property
    def decoder(self) -> Any:
        """The body of the language model, without what makes features of images."""
        return (images.part_of(self.body, images.TEXT) if sees(self.inner.config) else None) or self.body

    @property
    def seeing(self) -> list[nn.Module]:
        """The parts that make features of images: the tower, and what adapts its width."""
        return [part for part in self.body.children() if part is not self.decoder]

    @property
    def config(self) -> Any:
        """The configuration of the language model."""
        return self.inner.config.get_text_config()

    @property
    def projection(self) -> Any:
        """The vocabulary projection, or the head of one number."""
        inner: Any = self.inner
        return inner.score if self.spec.head else inner.get_output_embeddings()

    def _chosen(self, routers: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """Returns the experts [T, k] of the tokens of a row, from the logits of each router."""
        k = self.config.num_experts_per_tok
        if self.replay is None:
            return [logits.topk(k, -1).indices for logits in routers]
        return [self.replay.chosen(number, logits, k) for number, logits in enumerate(routers)]

    @property
    def routed(self) -> bool:
        """Whether the model has experts."""
        config = self.config
        experts = any(getattr(config, key, None) for key in ("num_experts", "num_local_experts"))
        return experts and hasattr(config, "output_router_logits")

    @property
    def aux_loss(self) -> float:
        """The coefficient of the load-balancing loss in the training loss; 0 without one."""
        config = self.config
        wanted = self.spec.train and self.routed and config.output_router_logits
        return float(getattr(config, "router_aux_loss_coef", 0.0)) if wanted else 0.0

    def _adapted(self) -> Any:
        """Returns the model with the adapter of the spec, which has the modules of its file alone: their last names may be
        those of modules in a tower, too."""
        from peft import PeftConfig, PeftModel

        config = PeftConfig.from_pretrained(self.spec.lora)
        if self.eye:
            names = loading.stored(self.spec.lora, adapter=True)
            config.target_modules = sorted({n.removeprefix(loading.PEFT).rsplit(".lora_", 1)[0] for n in names})
        return PeftModel.from_pretrained(
            self.lm,
            self.spec.lora,
            is_trainable=self.spec.train,
            config=config,
            autocast_adapter_dtype=False,
            low_cpu_mem_usage=True,
        )

    def _replay(self) -> Replay:
        """Returns the routers of the model, whose experts requests give."""
        name = f"model {self.spec.path} ({self.inner.config.model_type})"
        if self.spec.sequence > 1:
            raise BadRequest(f"{name}: ranks that hold parts of a row do not replay experts")
        replay = Replay(self.decoder)
        if not replay.routers:
            raise BadRequest(f"{name} has no router whose weights this worker can replay")
        return replay

    def _set_score(self, arrays: Arrays) -> None:
        for name in ("weight", "bias"):
            given = arrays.get("score." + name)
            value = None if given is None else nn.Parameter(torch.from_numpy(given.copy()).to(self.lm.dtype))
            self.lm.score.register_parameter(name, value)

    def _recompute(self) -> None:
        if not self.spec.recompute:
            return
        inner: Any = self.inner
        enable = getattr(inner, "activation_checkpointing_enable", inner.gradient_checkpointing_enable)
        enable({"use_reentrant": False})
        for i, layer in enumerate(self.decoder.layers):
            layer.gradient_checkpointing = i < self.spec.recompute
            layer.training = True  # of the layer alone: transformers recomputes only then

    def _shard(self, mesh: DeviceMesh) -> None:
        policy = MixedPrecisionPolicy(param_dtype=DTYPES[self.spec.compute], reduce_dtype=torch.float32)
        tower = images.part_of(self.body, images.TOWER) if self.eye else None
        for layer in (*self.decoder.layers, *(images.blocks(tower) if tower else ())):
            fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=not self.spec.gathered)
        fully_shard(self, mesh=mesh, mp_policy=policy, reshard_after_forward=False)
        # The driver's derivatives are those of the loss of the whole step, so gradients are summed, not averaged. A
        # divide factor alone would go through an operation that gloo lacks.
        for module in self.modules():
            if hasattr(module, "set_gradient_divide_factor"):
                module.set_gradient_divide_factor(1.0)  # type: ignore[operator]
                module.set_force_sum_reduction_for_comms(True)  # type: ignore[operator]

    def run(self, pack: Pack, want: Want | None, **kwargs: Any) -> tuple[torch.Tensor, ...]:
        """Is forward, whose products have the type that the driver wants."""
        if not self.casts:
            return self(pack, want, **kwargs)
        if self.copies is None:
            self.copies = Copies(self, DTYPES[self.spec.compute])
        return functional_call(self, self.copies.of(self), (pack, want), kwargs)

    def forward(
        self, pack: Pack, want: Want | None, adapter: bool = True, hold: bool = False
    ) -> tuple[torch.Tensor, ...]:
        """Returns the streams of the head, in its order: [M], of log-probabilities [M, K]; or only the hidden states [M, D] if
        want is None. To hold the graph of a model with a load-balancing loss, that of the row follows, times the tokens of the step."""
        off = nullcontext() if adapter or not self.spec.lora else self.lm.disable_adapter()
        self.apart.lengths = pack.lengths  # the backward pass may compute layers again
        if self.replay is not None:
            self.replay.begin(pack.experts, hold)
        with off:
            out = self.decoder(
                **(self._embedded(pack) if pack.seen else {"input_ids": pack.ids}),
                position_ids=pack.positions,
                use_cache=False,
                trinity_row=pack.row,
                output_router_logits=hold and self.routed,
            )
        if self.replay is not None:  # the backward pass may compute layers again
            self.replay.counting = False
        h = embedding(pack.rows, out.last_hidden_state[0])  # its gradient adds up in the same order each time
        if want is None:
            return (h,)
        routers: tuple[torch.Tensor, ...] = ()
        if hold and self.routed:
            logits, part = (
                out.router_logits,
                pack.row.part,
            )  # of each token of each sequence, also of those that they share
            if part is not None:
                logits = tuple(part.whole(x) for x in logits)
            if pack.paths is not None:
                logits = tuple(embedding(pack.paths, x) for x in logits)
            chosen = self._chosen(logits)
            counts = loads(logits, pack.lengths, chosen)
            if part is not None and part.begin:  # the first part counts
                counts.zero_()
            self.loads = counts if self.loads is None else self.loads + counts
            if self.aux_loss:
                routers = (imbalance(logits, pack.lengths, chosen),)
        if self.spec.head:
            return (self.projection(h).float().squeeze(-1), *routers)
        v = Vocabulary(self.projection.weight)
        h = h.to(v.weight.dtype)
        low, up = self._head_adapter(h) if adapter else (None, None)
        return (*Head.apply(h, v.weight, pack.targets, want, v, low, up), *routers)

    def _embedded(self, pack: Pack) -> dict[str, Any]:
        """Returns what the decoder gets of a row with images: its embeddings, with features in place of those of
        placeholders, and the features of single layers of the tower (DeepStack) if the model has them."""
        seen: Any = pack.seen
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.spec.vision):
            out = self.body.get_image_features(**seen.values)
        states = self.decoder.get_input_embeddings()(pack.ids)
        mask = torch.zeros(states.shape[1], dtype=torch.bool, device=states.device)
        mask[seen.rows] = True
        features = embedding(seen.order, torch.cat(list(out.pooler_output)).to(states.dtype))
        inputs: dict[str, Any] = {"inputs_embeds": states.masked_scatter(mask[None, :, None], features)}
        if deep := getattr(out, "deepstack_features", None):
            inputs["visual_pos_masks"] = mask[None]
            inputs["deepstack_visual_embeds"] = [embedding(seen.order, torch.cat(list(of))) for of in deep]
        return inputs

    @property
    def shares(self) -> bool:
        """Whether sequences may share the rows of their stems. A module with state must see each sequence whole."""
        return not self.apart.modules

    def finished(self, h: torch.Tensor) -> torch.Tensor:
        """Returns the final logits [M, V] of hidden states, or the states themselves if there is no vocabulary head."""
        return h.float() if self.spec.head else self.finish(h @ self.projection.weight.T).float()

    @property
    def adapted(self) -> bool:
        """Whether there is an adapter of the vocabulary projection, which PEFT has wrapped then."""
        return bool(self.spec.lora) and ADAPTER in getattr(self.projection, "lora_A", {})

    def _head_adapter(self, h: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Returns the low-rank states [M, r] of the head's adapter, and its B [V, r]."""
        if not self.adapted:
            return None, None
        p = self.projection
        low = p.scaling[ADAPTER] * (h.to(p.lora_A[ADAPTER].weight.dtype) @ p.lora_A[ADAPTER].weight.T)
        return low.to(h.dtype), p.lora_B[ADAPTER].weight.to(h.dtype)

    @torch.no_grad()
    def score(self, pack: Pack, want: Want | None, adapter: bool = True) -> tuple[torch.Tensor, ...]:
        """Is forward without a graph."""
        out = self.run(pack, want, adapter=adapter)
        self.release()
        return out

    def release(self) -> None:
        """Drops gathered weights: the root's, and those of layers that keep them. Without a backward pass FSDP does not, and
        a step or a load does not change them."""
        for module in self.modules():
            if isinstance(module, FSDPModule):
                module.reshard()
        if not self.spec.train or self.spec.base:
            self.forget()

    def forget(self) -> None:
        """Drops the copies of weights that are about to change, or that nobody needs for a while."""
        self.copies = None

    def head_weight(self) -> torch.Tensor:
        """Returns the whole vocabulary projection, in the type of the products. All ranks must call it."""
        weight, p = whole(self.projection.weight.detach()), self.projection
        if self.adapted:
            up, down = (whole(part[ADAPTER].weight.detach()) for part in (p.lora_B, p.lora_A))
            weight = weight + p.scaling[ADAPTER] * (up @ down)
        return weight.to(DTYPES[self.spec.compute])

    def trained(self) -> dict[str, nn.Parameter]:
        """Returns what the optimizer changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def save(self, path: str, first: bool, dtype: str = "float32") -> None:
        """Writes a Hugging Face or PEFT directory, of which the first in the type. All ranks must call it; rank 0 writes."""
        state = self.lm.state_dict()
        if self.spec.lora:
            state = {k: v for k, v in state.items() if "lora_" in k}
        full = {}
        for name, tensor in state.items():
            tensor = whole(tensor.detach())
            if first:
                full[name] = tensor.to(torch.float32 if self.spec.lora else getattr(torch, dtype)).cpu()
        if first:
            # PEFT would save the frozen weight of an adapted head, too.
            own: dict[str, Any] = {"save_embedding_layers": False} if self.spec.lora else {}
            self.lm.save_pretrained(path, state_dict=full, **own)
