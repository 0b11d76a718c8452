"""The backend trinity_files of vLLM's weight transfer: a server gets versions of the weights as files over HTTP.

    vllm serve MODEL --weight-transfer-config '{"backend": "trinity_files"}'

vLLM finds register by the entry point vllm.general_plugins. The phases of an update: init says where the driver serves
files, start does nothing, update fetches the files, checks them and loads them, and finish brings them into use. An
update that is refused leaves the model as it was; vLLM answers 500, and samples on.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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

BACKEND = "trinity_files"


def register() -> None:
    """Add the backend to vLLM, which calls this in each of its processes, perhaps twice."""
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, FilesEngine)


@dataclass
class InitInfo(WeightTransferInitInfo):
    url: str
    token: str
    seconds: float


@dataclass
class UpdateInfo(WeightTransferUpdateInfo):
    digest: str
    files: list[dict[str, Any]] = field(default_factory=list)


class FilesEngine(WeightTransferEngine[InitInfo, UpdateInfo]):
    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    source: files.Source | None = None
    received = False
    expected: files.Tensors | None = None

    def init_transfer_engine(self, init_info: InitInfo) -> None:
        self.source = files.Source(init_info.url, init_info.token, init_info.seconds)

    def start_weight_update(self) -> None:
        self.received = False  # the model is touched only when the files have been checked

    def receive_weights(self, update_info: UpdateInfo) -> None:
        if self.source is None:
            raise RuntimeError("the phase init, which names the source of the files, is missing")
        directory = files.fetch(self.source, update_info.files, self.root(), update_info.digest)
        found = sorted(directory.rglob("*.safetensors"))
        files.compare(files.read_tensors(found), self.tensors(), self.model_config.hf_text_config.tie_word_embeddings)
        initialize_layerwise_reload(self.model)
        self.model.load_weights(_read(found))
        self.received = True

    def finish_weight_update(self) -> None:
        if not self.received:
            raise RuntimeError("the phase update, which brings the files, is missing")
        finalize_layerwise_reload(self.model, self.model_config)
        self.renew_heads()
        self.received = False
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
        shutil.rmtree(self.root(), ignore_errors=True)


def _read(found: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    for path in found:
        with safe_open(path, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118, a file is no dictionary
                yield name, tensors.get_tensor(name)
