"""The sections of Trinity-RFT's configuration that classes read."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FormatConfig:
    """Which columns of a row are what."""

    prompt_type: Any = "messages"
    prompt_key: str = "prompt"
    response_key: str = "response"
    system_prompt_key: str | None = None
    system_prompt: str | None = None
    messages_key: str = "message"
    tools_key: str = "tools"
    image_key: str | None = None
    video_key: str | None = None
    reply_prefix: str | None = None
    workflow_key: str = ""
    reward_fn_key: str = ""
    chosen_key: str = "chosen"
    rejected_key: str = "rejected"
    enable_concatenated_multi_turn: bool = False
    chat_template: str | None = None
    enable_thinking: bool | None = None


@dataclass
class GenerationConfig:
    """How replies are sampled. None is what the run says."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int = -1
    logprobs: int | None = None
    max_tokens: int | None = None
    n: int = 1


@dataclass
class OperatorConfig:
    """An operator and its arguments."""

    name: str = ""
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class InferenceModelConfig:
    """What a workflow may ask about its model."""

    model_path: str | None = None
    name: str | None = None
    engine_type: str = "trinity-go"
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    logprobs: int | None = None
    max_model_len: int | None = None
    max_prompt_tokens: int | None = None
    max_response_tokens: int | None = None
    min_response_tokens: int | None = None
    enable_prompt_truncation: bool | None = None
    repetition_penalty: float | None = None
    chat_template: str | None = None
    enable_thinking: bool | None = None
    enable_history: bool = False
    enable_openai_api: bool = False
    enable_auto_tool_choice: bool = True
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    enable_lora: bool = False
    enable_return_routed_experts: bool = False
    api_key: str = "EMPTY"
    seed: int = 42
    engine_id: int = 0


class Section(SimpleNamespace):
    """A section that classes only name in annotations, or read an attribute of that somebody has set."""


# The other sections of the configuration.
SECTIONS = (
    "AlgorithmConfig", "BufferConfig", "ClusterConfig", "Config", "DataJuicerServiceConfig", "DataProcessorConfig", "DataSelectorConfig",
    "ExperienceBufferConfig", "ExperiencePipelineConfig", "ExplorerConfig", "ExplorerInput", "LogConfig", "ModelConfig", "MonitorConfig",
    "ReplayBufferConfig", "ServiceConfig", "StorageConfig", "SynchronizerConfig", "TaskPipelineConfig", "TasksetConfig", "TrainerConfig",
    "TrainerInput",
)  # fmt: skip
