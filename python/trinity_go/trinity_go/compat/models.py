"""The model of a workflow: the endpoint of its rollout, at which all that the policy samples is recorded."""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import contextlib
import copy
import functools
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from .config import InferenceModelConfig
from .experience import Experience, Recorded
from .http import ModelError, ask
from .numbers import Numbers, imported_torch, load
from .utils import get_logger

# Arguments of chat and generate that are sent as they are.
_SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens", "stop", "stop_token_ids", "seed", "tools", "tool_choice",
    "repetition_penalty", "presence_penalty", "frequency_penalty", "ignore_eos", "chat_template_kwargs",
)  # fmt: skip

# What a call may say of its reply. Log-probabilities, which GenerationConfig asks for, come with each.
ARGUMENTS = (*_SAMPLING, "n", "logprobs", "enable_thinking", "extra_body")

_asks = concurrent.futures.ThreadPoolExecutor(1024, "asks")  # each waits for one answer


class ModelWrapper:
    """Asks a model. A model with several endpoints is that of a group: reply i is asked at endpoint i."""

    def __init__(self, endpoints: Sequence[Mapping[str, Any]], settings: Mapping[str, Any] | None = None) -> None:
        known = dict(settings or {})
        self._endpoints, self._settings = [dict(e) for e in endpoints], known
        self.auxiliary = bool(known.get("auxiliary"))  # it is asked in words, and not trained
        self.enable_history, self.enable_lora, self.status = (
            not self.auxiliary,
            False,
            SimpleNamespace(name="RUNNING", value="running"),
        )
        self.history: list[Experience] = []
        self.recorded: list[Recorded] = []  # every reply that the policy has given, also to clones
        self.workflow_state: dict[str, Any] = {}
        self.request_count = 0
        self.logger = get_logger("model")
        name = known.get("name") or "policy"
        self._model_path = known.get("path") or name
        fields = {k: v for k, v in known.items() if k in InferenceModelConfig.__dataclass_fields__}
        self.config = InferenceModelConfig(
            **fields
            | {
                "name": name,
                "model_path": self._model_path,
                "enable_history": self.enable_history,
                "enable_openai_api": True,
                "api_key": self.api_key,
            }
        )
        self._name = name
        self._generate_kwargs: dict[str, Any] = {
            "temperature": self.config.temperature, "top_p": self.config.top_p, "max_tokens": self.config.max_response_tokens,
        }  # fmt: skip
        if self.config.enable_thinking is not None:
            self._generate_kwargs["extra_body"] = {
                "chat_template_kwargs": {"enable_thinking": self.config.enable_thinking}
            }
        self._version: int | None = None  # of the newest reply
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    # ---- what it is ----

    @property
    def api_key(self) -> str:
        return str(self._endpoints[0].get("api_key") or "EMPTY")

    @property
    def api_address(self) -> str:
        return str(self._endpoints[0]["base_url"]).removesuffix("/v1")

    @property
    def model_path(self) -> str:
        return str(self._model_path)

    @property
    def model_name(self) -> str:
        return str(self._model_path)

    @property
    def model_config(self) -> InferenceModelConfig:
        return self.config

    @property
    def generate_kwargs(self) -> dict[str, Any]:
        return self._generate_kwargs

    @property
    def model_version(self) -> int:
        """The version of the weights that gave the newest reply; before the first one, that when the rollout began."""
        return int(self._version if self._version is not None else self._settings.get("version") or 0)

    @property
    async def model_version_async(self) -> int:
        return self.model_version

    @property
    def endpoints(self) -> int:
        return len(self._endpoints)

    # ---- replies ----

    def chat(self, messages: list[dict[str, Any]], **kwargs: Any) -> list[Experience]:
        """Return replies to a chat, as many as n."""
        return self._remember(self._replies(*self._chat(messages, kwargs)))

    def generate(self, prompts: list[str] | str, **kwargs: Any) -> list[Experience]:
        """Return replies to plain texts, as many as n each."""
        return self._remember([e for call in self._texts(prompts, kwargs) for e in self._replies(*call)])

    async def chat_async(self, messages: list[dict[str, Any]], **kwargs: Any) -> list[Experience]:
        return self._remember(await self._replies_later(*self._chat(messages, kwargs)))

    async def generate_async(self, prompts: list[str] | str, **kwargs: Any) -> list[Experience]:
        all_of = await asyncio.gather(*(self._replies_later(*call) for call in self._texts(prompts, kwargs)))
        return self._remember([e for one in all_of for e in one])

    def _chat(self, messages: list[dict[str, Any]], kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any], int]:
        """Return path, body and number of the replies to a chat."""
        return (
            "/chat/completions",
            self._body(kwargs, logprobs=True) | {"messages": messages},
            int(kwargs.get("n") or 1),
        )

    def _texts(self, prompts: list[str] | str, kwargs: Mapping[str, Any]) -> list[tuple[str, dict[str, Any], int]]:
        body, n = self._body(kwargs, logprobs=0), int(kwargs.get("n") or 1)
        return [("/completions", body | {"prompt": p}, n) for p in ([prompts] if isinstance(prompts, str) else prompts)]

    def _ask(self, path: str, body: Any = None, endpoint: int = 0) -> Any:
        at = self._endpoints[endpoint]
        return ask(at["base_url"], at.get("api_key") or "EMPTY", path, body)

    def _body(self, kwargs: Mapping[str, Any], logprobs: int) -> dict[str, Any]:
        body = {k: kwargs[k] for k in _SAMPLING if kwargs.get(k) is not None}
        if body.get("top_k", 1) <= 0:  # no limit, as in vLLM
            del body["top_k"]
        thinking = kwargs.get("enable_thinking", self.config.enable_thinking)
        if thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": thinking} | body.get("chat_template_kwargs", {})
        body |= dict(kwargs.get("extra_body") or {}) | {"model": self._name}
        return body if self.auxiliary else body | {"return_token_ids": True, "logprobs": logprobs}

    def _calls(self, body: dict[str, Any], n: int) -> list[tuple[dict[str, Any], int]]:
        """Return the bodies of the calls that make n replies, and their endpoints."""
        many = len(self._endpoints)
        return [(body | {"n": n}, 0)] if many == 1 else [(body | {"n": 1}, i % many) for i in range(n)]

    def _replies(self, path: str, body: dict[str, Any], n: int) -> list[Experience]:
        calls = self._calls(body, n)
        if len(calls) == 1:
            return self._read(self._ask(path, *calls[0]), calls[0][1], body)
        asked = [(_asks.submit(self._ask, path, *call), call[1]) for call in calls]
        return [e for reply, endpoint in asked for e in self._read(reply.result(), endpoint, body)]

    async def _replies_later(self, path: str, body: dict[str, Any], n: int) -> list[Experience]:
        asked = [(asyncio.wrap_future(_asks.submit(self._ask, path, *c)), c[1]) for c in self._calls(body, n)]
        await asyncio.gather(*(reply for reply, _ in asked))
        return [e for reply, endpoint in asked for e in self._read(reply.result(), endpoint, body)]

    def _read(self, reply: Mapping[str, Any], endpoint: int, asked: Mapping[str, Any]) -> list[Experience]:
        """Return the experiences of a reply: ids and log-probabilities as they were sampled."""
        prompt, out = reply.get("prompt_token_ids") or [], []
        for choice in reply["choices"]:
            ids, logprobs = choice.get("token_ids") or [], choice.get("logprobs") or {}
            given = logprobs.get("content")
            numbers = logprobs.get("token_logprobs") or [] if given is None else [x["logprob"] for x in given]
            own = choice.get("recorded") or {}
            message = choice.get("message") or {}
            text = own.get("text", message.get("content") if message else choice.get("text"))
            e = Experience(
                tokens=[*prompt, *ids],
                prompt_length=len(prompt),
                logprobs=numbers,
                action_mask=[True] * len(ids),
                response_text=text or "",
                prompt_text=asked.get("prompt") if isinstance(asked.get("prompt"), str) else None,
                truncate_status="response_truncated" if choice.get("finish_reason") == "length" else None,
            )
            e.experience_type, e.messages, e.tools = "single_turn", None, asked.get("tools")
            if own:
                sequence = array.array("i", prompt)
                sequence.extend(ids)
                e.recorded = Recorded(own["turn"], endpoint, sequence, own["prompt_length"])
            if versions := choice.get("versions"):
                self._version = int(versions[1])
            out.append(e)
        return out

    def _remember(self, experiences: list[Experience]) -> list[Experience]:
        with self._lock:
            self.request_count += 1
            self.recorded += [e.recorded for e in experiences if e.recorded]
            if self.enable_history:
                self.history += experiences
        return experiences

    # ---- of what was sampled ----

    def convert_messages_to_experience(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Experience:
        """Return the sequence of a chat as it was sampled: nothing is tokenized again, and no log-probability computed.

        It ends with the policy's last reply in the chat. A chat that the policy was not asked for is refused, and the
        error says where it differs.
        """
        if self.auxiliary:
            raise NotImplementedError(
                f"convert_messages_to_experience of {self._name}: nothing is recorded of a model that is not trained"
            )
        body = {"messages": messages} | ({"tools": tools} if tools else {})
        found, refused = None, None
        for endpoint in range(len(self._endpoints)):
            try:
                found = self._ask("/sequence", body, endpoint), endpoint
                break
            except ModelError as error:
                if error.status != 404:
                    raise
                refused = refused or error
        if found is None:
            assert refused is not None
            raise refused
        sequence, endpoint = found
        ids, length = array.array("i", sequence["ids"]), sequence["prompt_length"]
        mask = [False] * (len(ids) - length)
        for begin, end in sequence["mask"]:
            mask[begin:end] = [True] * (end - begin)
        out = Experience(
            tokens=ids.tolist(),
            prompt_length=length,
            logprobs=sequence["logprobs"],
            action_mask=mask,
            messages=messages,
            tools=tools,
        )
        out.recorded = Recorded(max(sequence["turns"]), endpoint, ids, length)
        with self._lock:
            self.recorded.append(out.recorded)
        return out

    async def convert_messages_to_experience_async(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        temperature: float | None = None,
    ) -> Experience:
        return await asyncio.to_thread(self.convert_messages_to_experience, messages, tools, temperature)

    def logprobs(self, tokens: Any, temperature: float | None = None) -> Any:
        """Return the log-probabilities of tokens after the first under the model as it is now, at temperature 1."""
        if temperature not in (None, 1, 1.0):
            raise ValueError(f"logprobs at temperature {temperature}: the endpoint computes them at temperature 1")
        ids = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
        body = {"tokens": ids} | ({"model": self._name} if self.auxiliary else {})
        out = Numbers(self._ask("/logprobs", body)["logprobs"], "float32")
        return out.tensor() if imported_torch() is not None else out

    async def logprobs_async(self, tokens: Any, temperature: float | None = None) -> Any:
        return await asyncio.to_thread(self.logprobs, tokens, temperature)

    async def get_message_token_len(self, messages: list[dict[str, Any]]) -> int:
        """Return how many tokens the model reads for a chat."""
        answer = await asyncio.to_thread(
            self._ask, "/messages/count_tokens", {"model": self._name, "messages": messages}
        )
        return int(answer["input_tokens"])

    def extract_experience_from_history(self, clear_history: bool = True) -> list[Experience]:
        """Return the experiences of all replies since the last time, the clients' too."""
        if not self.enable_history:
            raise ValueError("enable_history is off")
        with self._lock:
            out = list(self.history)
            if clear_history:
                self.history.clear()
        return out

    def clone_with_isolated_history(self) -> ModelWrapper:
        """Return the same model with a history of its own."""
        clone = copy.copy(self)
        clone.history, clone._clients = [], {}
        return clone

    # ---- clients of OpenAI ----

    def get_openai_client(self) -> Any:
        """Return a client of openai.OpenAI for the rollout. It shares its connections with all others of the process."""
        return self._client("OpenAI")

    def get_openai_async_client(self) -> Any:
        """Return a client of openai.AsyncOpenAI for the rollout, which belongs to the running loop."""
        return self._client("AsyncOpenAI")

    def _client(self, kind: str) -> Any:
        with self._lock:
            if kind not in self._clients:
                self._clients[kind] = self._recorded(kind, ())
            return self._clients[kind]

    def _of(self, kind: str, options: Sequence[Mapping[str, Any]]) -> Any:
        """Return a client of the endpoint, with options as with_options takes them, one set after the other."""
        client = _shared(kind).with_options(base_url=self._endpoints[0]["base_url"], api_key=self.api_key)
        for one in options:
            client = client.with_options(**one)
        return client

    def _recorded(self, kind: str, options: tuple[Mapping[str, Any], ...]) -> Any:
        """Return a client whose replies are kept in the history, also those of its copies."""
        client = self._of(kind, options)
        client.model_path = self._name if self.auxiliary else self.model_path
        completions = client.chat.completions
        completions.create = self._recording(kind, completions.create, options)
        client.with_options = client.copy = lambda **more: self._recorded(kind, (*options, more))
        return client

    def _recording(
        self, kind: str, create: Callable[..., Any], options: Sequence[Mapping[str, Any]]
    ) -> Callable[..., Any]:
        """Return create of a client, whose replies are kept in the history."""

        def asked(kwargs: dict[str, Any]) -> dict[str, Any]:
            if kwargs.get("model") == self.model_path:
                kwargs = kwargs | {"model": self._name}
            if not self.enable_history:
                return kwargs
            extra, thinking = dict(kwargs.get("extra_body") or {}), self.config.enable_thinking
            if thinking is not None:
                extra["chat_template_kwargs"] = {
                    **(extra.get("chat_template_kwargs") or {}),
                    "enable_thinking": thinking,
                }
            return {"logprobs": True} | kwargs | {"extra_body": extra | {"return_token_ids": True}}

        def keep(reply: Any, kwargs: dict[str, Any]) -> Any:
            if not self.enable_history:
                return reply
            if type(reply).__name__ == "LegacyAPIResponse":  # of with_raw_response
                keep(reply.parse(), kwargs)
            elif hasattr(reply, "model_dump"):
                self._remember(self._read(reply.model_dump(), 0, kwargs))
            elif not _follow(
                reply, int(kwargs.get("n") or 1), lambda whole: self._remember(self._read(whole, 0, kwargs))
            ):
                self.logger.warning("a %s is not in the history: ask without stream", type(reply).__name__)
            return reply

        @functools.wraps(create)
        def now(**kwargs: Any) -> Any:
            return keep(create(**asked(kwargs)), kwargs)

        @functools.wraps(create)
        async def later(**kwargs: Any) -> Any:
            own = self._of(kind, options)  # of the running loop, to which connections belong
            return keep(await own.chat.completions.create(**asked(kwargs)), kwargs)

        return later if kind == "AsyncOpenAI" else now

    # ---- state of a workflow, which an endpoint of Trinity-RFT shows to others ----

    async def set_workflow_state(self, state: Mapping[str, Any]) -> None:
        self.workflow_state.update(state)

    async def get_workflow_state(self) -> dict[str, Any]:
        return dict(self.workflow_state)

    async def clean_workflow_state(self) -> None:
        self.workflow_state = {}
        with self._lock:
            self.history.clear()

    async def prepare(self) -> None:
        """Do nothing: the endpoint is there before the workflow."""


def _follow(stream: Any, n: int, then: Callable[[dict[str, Any]], Any]) -> bool:
    """Call then with the reply of a stream once its n choices have been read; report whether that is possible."""
    parts = getattr(stream, "_iterator", None)
    if parts is None:
        return False
    choices: list[Any] = []

    def take(part: Any) -> Any:
        said = part.model_dump()
        for choice in said.get("choices") or ():
            if choice.get("token_ids") is not None:  # the last part of a choice has all that was sampled
                choices.append(choice)
                if len(choices) == n:
                    then(said | {"choices": choices})
        return part

    async def later() -> AsyncIterator[Any]:
        async for part in parts:
            yield take(part)

    stream._iterator = later() if hasattr(parts, "__anext__") else map(take, parts)
    return True


_bases: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_bases_lock = threading.Lock()


class _NoLoop:
    """Stands for the loop of a client that is used without one."""


_no_loop = _NoLoop()


def _shared(kind: str) -> Any:
    """Return the one client of a kind, whose connections all others use: one that is made anew loads the certificates,
    which takes 100 ms. Connections of an asynchronous one belong to their loop."""
    openai = load("openai")
    for name in ("httpx", "httpx2"):  # they write a line for each call, with the rollout's key
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    loop: Any = _no_loop
    if kind == "AsyncOpenAI":
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
    with _bases_lock:
        clients = _bases.setdefault(loop, {})
        if kind not in clients:
            clients[kind] = getattr(openai, kind)(base_url="http://127.0.0.1", api_key="none")
        return clients[kind]
