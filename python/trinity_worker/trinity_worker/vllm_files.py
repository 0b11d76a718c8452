"""The backend trinity_files of vLLM's weight transfer: a server gets versions of the weights as files over HTTP, or as
tensors from the processes that train.

    vllm serve MODEL --weight-transfer-config '{"backend": "trinity_files"}'

vLLM finds register by the entry point vllm.general_plugins. The phases of an update: init says where the driver serves
files, start does nothing, update fetches the files, checks them and loads them, and finish brings them into use. An
update that is refused leaves the model as it was; vLLM answers 500, and samples on.

Without files, init compares the list of all tensors with the model. A second one joins the worker's process group, and
each update receives a bucket. A worker that goes in the middle leaves a model that vLLM cannot use: the server ends with its next
request.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from trinity_worker import files
from trinity_worker.channel import Channel, Entry, Receiver

BACKEND = "trinity_files"
TYPES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL"}
"""How safetensors files call types."""


def register() -> None:
    """Add the backend to vLLM, which calls this in each of its processes, perhaps twice."""
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, FilesEngine)


@dataclass
class InitInfo(WeightTransferInitInfo):
    url: str = ""
    token: str = ""
    seconds: float = 0
    channel: dict[str, Any] | None = None


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    digest: str = ""
    files: list[dict[str, Any]] = field(default_factory=list)
    tensors: list[Entry] = field(default_factory=list)
    handles: dict[str, Any] = field(default_factory=dict)


class FilesEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    source: files.Source | None = None
    receiver: Receiver | None = None
    loading = False
    missing = 0  # tensors that have not come yet
    expected: files.Tensors | None = None

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        self.leave()
        self.source = None
        if init_info.channel is None:
            self.source = files.Source(init_info.url, init_info.token, init_info.seconds)
            return
        channel = Channel(**init_info.channel)
        self.compare({name: (TYPES.get(dtype, dtype), tuple(shape)) for name, dtype, shape in channel.tensors})
        self.missing = len(channel.tensors)
        if not channel.transport:
            return
        p = self.parallel_config
        self.receiver = Receiver(channel, p.data_parallel_index * p.world_size + p.rank, self.device)

    def start_weight_update(self) -> None:
        self.loading = False  # the model is touched only when what comes has been checked

    def receive_weights(self, update_info: UpdateInfo) -> None:
        if self.receiver is not None:
            try:
                tensors = self.receiver.receive(update_info.tensors, update_info.handles)
                self.load(tensors)
                self.missing -= len(tensors)
            except BaseException:
                self.leave()
                raise
            return
        if self.source is None:
            raise RuntimeError("the phase init, which says where weights come from, is missing")
        directory = files.fetch(self.source, update_info.files, self.root(), update_info.digest)
        found = sorted(directory.rglob("*.safetensors"))
        self.compare(files.read_tensors(found))
        self.load(_read(found))

    def compare(self, tensors: files.Tensors) -> None:
        # Of a model that reads images either part of its configuration may lack the key.
        parts = (self.model_config.hf_config, self.model_config.hf_text_config)
        tied = any(getattr(part, "tie_word_embeddings", False) for part in parts)
        files.compare(tensors, self.tensors(), tied)

    def load(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Load tensors of a version. The first ones make room for all."""
        if not self.loading:
            initialize_layerwise_reload(self.model)
            self.loading = True
        self.model.load_weights(tensors)

    def leave(self) -> None:
        """End the channel to the worker."""
        if self.receiver is not None:
            self.receiver.close()
        self.receiver = None

    def finish_weight_update(self) -> None:
        if not self.loading:
            raise RuntimeError("the phase update, which brings the weights, is missing")
        if self.receiver is not None and self.missing:
            raise RuntimeError(f"{self.missing} tensors of the version have not come")
        self.leave()
        finalize_layerwise_reload(self.model, self.model_config)
        self.renew_heads()
        self.loading = False
        shutil.rmtree(self.root() / "version", ignore_errors=True)

    def renew_heads(self) -> None:
        """Prepare heads again that share the embedding's weight: a reload prepares the embedding alone."""
        for module in self.model.modules():
            if isinstance(module, VocabParallelEmbedding):
                module.quant_method.process_weights_after_loading(module)

    def tensors(self) -> files.Tensors:
        """Return the tensors of the files that the server was started from."""
        if self.expected is None:
            model = Path(self.model_config.model)
            if not model.is_dir():
                from huggingface_hub import snapshot_download

                model = Path(snapshot_download(str(model), revision=self.model_config.revision, local_files_only=True))
            self.expected = files.read_tensors(sorted(model.glob("*.safetensors")))
            if not self.expected:
                raise files.Refused(f"{model} has no safetensors files that a version could be compared with")
        return self.expected

    def root(self) -> Path:
        return files.root_of(self.vllm_config.instance_id)

    def shutdown(self) -> None:
        self.leave()
        shutil.rmtree(self.root(), ignore_errors=True)


def _read(found: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    for path in found:
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118, a file is no dictionary
                yield name, tensors.get_tensor(name)
