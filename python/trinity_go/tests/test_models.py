"""The model of a workflow, against a server that answers as the gateway does."""

from __future__ import annotations

import array
import asyncio
import http.server
import importlib.util
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from trinity_go.compat.experience import to_posted
from trinity_go.compat.http import ModelError
from trinity_go.compat.models import ModelWrapper
from trinity_go.compat.numbers import list_of
from trinity_go.wire import Told

HAS_OPENAI = importlib.util.find_spec("openai") is not None


class Gateway(http.server.ThreadingHTTPServer):
    """Answers each call with the bytes of the question and of `ok`, and remembers what it was asked."""

    request_queue_size = 256
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, dict[str, Any], Any]] = []
        self.connections = 0
        self.turns = dict[str, int]()
        self.refuse: list[tuple[int, dict[str, str], str]] = []
        self.drop = False  # connections after an answer
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/r/key0/v1"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Gateway

    def log_message(self, *_: Any) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Authorization"].removeprefix("Bearer ")
        with self.server.lock:
            self.server.asked.append((self.path.removeprefix("/r/key0"), body, dict(self.headers.items())))
            refused = self.server.refuse.pop(0) if self.server.refuse else None
            first = self.server.turns.get(key, 0)
            self.server.turns[key] = first + body.get("n", 1)
        status, headers, answer = refused or (200, {}, json.dumps(self.answer(body, first)))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.encode())))
        self.end_headers()
        self.wfile.write(answer.encode())
        if self.server.drop:  # without a word, as servers do with idle connections
            self.close_connection = True

    def answer(self, body: dict[str, Any], first: int) -> Any:
        if self.path.endswith("/sequence"):
            return {
                "ids": [1, 2, 3, 4, 5],
                "prompt_length": 2,
                "mask": [[0, 1], [2, 3]],
                "logprobs": [-1, 0, -2],
                "turns": [0, 3],
            }
        if self.path.endswith("/logprobs"):
            return {"logprobs": [-0.5 * t for t in body["tokens"][1:]]}
        if self.path.endswith("/count_tokens"):
            return {"input_tokens": len(body["messages"])}
        prompt = list((body.get("prompt") or body["messages"][-1]["content"]).encode())
        choices = []
        for i in range(body.get("n", 1)):
            text, turn = f"ok{first + i}", first + i
            recorded = {"turn": turn, "prompt_length": len(prompt), "text": text + "<end>"}
            own = {
                "index": i,
                "finish_reason": "length" if turn == 1 else "stop",
                "token_ids": list(text.encode()),
                "recorded": recorded,
            }
            numbers = [-0.25 * (k + 1) for k in range(len(text))]
            if "prompt" in body:
                own |= {"text": text, "logprobs": {"token_logprobs": numbers}}
            else:
                content = [{"token": "t", "logprob": p, "bytes": None, "top_logprobs": []} for p in numbers]
                own |= {"message": {"role": "assistant", "content": text}, "logprobs": {"content": content}}
            choices.append(own | {"versions": [3, 4]})
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "prompt_token_ids": prompt,
            "choices": choices,
        }


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    server = Gateway()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def of(gateway: Gateway, n: int = 1, **settings: Any) -> ModelWrapper:
    endpoints = [{"base_url": gateway.url, "api_key": f"key{i}"} for i in range(n)]
    return ModelWrapper(endpoints, {"name": "m", "path": "/models/m", "version": 2} | settings)


HELLO = [{"role": "user", "content": "hi"}]


def test_replies_are_what_was_sampled(gateway: Gateway) -> None:
    model = of(gateway, temperature=0.5, max_response_tokens=9)
    assert (model.model_path, model.model_name, model.model_version, model.api_address) == (
        "/models/m",
        "/models/m",
        2,
        gateway.url[:-3],
    )
    assert model.generate_kwargs == {"temperature": 0.5, "top_p": None, "max_tokens": 9}
    assert model.model_config.enable_history and model.config.name == "m"
    one, two = model.chat(HELLO, n=2, temperature=None, top_k=-1, top_p=0.5, logprobs=0)
    path, body, _ = gateway.asked[0]
    assert path == "/v1/chat/completions"
    assert body == {"messages": HELLO, "logprobs": True, "n": 2, "top_p": 0.5, "model": "m", "return_token_ids": True}
    assert (list_of(one.tokens), one.prompt_length, one.response_text) == (list(b"hiok0"), 2, "ok0<end>")
    assert (list_of(one.logprobs), list_of(one.action_mask)) == ([-0.25, -0.5, -0.75], [True] * 3)
    assert (one.turn, two.turn, one.truncate_status, two.truncate_status) == (0, 1, None, "response_truncated")
    assert model.model_version == 4 and asyncio.run(_version(model)) == 4
    (text,) = model.generate(["say"], max_tokens=5)
    assert gateway.asked[1][0] == "/v1/completions" and gateway.asked[1][1]["max_tokens"] == 5
    assert (list_of(text.tokens), text.prompt_text, text.turn) == (list(b"sayok2"), "say", 2)
    assert model.extract_experience_from_history(clear_history=False) == [one, two, text]
    assert model.extract_experience_from_history() == [one, two, text]
    assert model.extract_experience_from_history() == []
    for e in (one, text):
        e.reward = 1
    assert [p["turn"] for p in to_posted([one, text])["experiences"]] == [0, 2]


async def _version(model: ModelWrapper) -> int:
    return await model.model_version_async


def test_a_group_asks_each_rollout(gateway: Gateway) -> None:
    model = of(gateway, 3)
    replies = model.chat(HELLO, n=4)
    assert [e.recorded.endpoint for e in replies if e.recorded] == [0, 1, 2, 0]
    assert sorted(headers["Authorization"][-1] for _, _, headers in gateway.asked) == ["0", "0", "1", "2"]
    assert all(body["n"] == 1 for _, body, _ in gateway.asked)
    assert len(model.recorded) == 4


def test_the_sequence_of_a_chat(gateway: Gateway) -> None:
    model = of(gateway)
    e = model.convert_messages_to_experience(HELLO, tools=[{"type": "function"}], temperature=0.7)
    assert gateway.asked[0][1] == {"messages": HELLO, "tools": [{"type": "function"}]}
    assert (list_of(e.tokens), e.prompt_length, list_of(e.action_mask)) == ([1, 2, 3, 4, 5], 2, [True, False, True])
    assert list_of(e.logprobs) == [-1, 0, -2] and e.turn == 3 and e.messages == HELLO
    e.reward = 0.5
    assert to_posted([e])["experiences"] == [{"turn": 3, "reward": 0.5, "learn": [[0, 1], [2, 3]]}]
    gateway.refuse.append((404, {}, '{"error": {"message": "the chat differs from the recorded ones at messages[0]"}}'))
    with pytest.raises(ModelError, match=r"sequence: the chat differs from the recorded ones at messages\[0\]"):
        asyncio.run(model.convert_messages_to_experience_async(HELLO))


def test_scores_and_lengths(gateway: Gateway) -> None:
    model = of(gateway)
    assert list_of(model.logprobs([2, 4, 6])) == [-2, -3]
    assert list_of(asyncio.run(model.logprobs_async([2, 4], temperature=1.0))) == [-2]
    with pytest.raises(ValueError, match="logprobs at temperature 0.5"):
        model.logprobs([1, 2], temperature=0.5)
    assert asyncio.run(model.get_message_token_len(HELLO)) == 1


def test_a_model_that_is_not_trained(gateway: Gateway) -> None:
    judge = of(gateway, name="judge", auxiliary=True)
    answer = json.dumps(
        {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "0.5"}}]}
    )
    gateway.refuse = [(200, {}, answer)]
    (e,) = judge.chat(HELLO)
    assert gateway.asked[0][1] == {"messages": HELLO, "n": 1, "model": "judge"}
    assert (e.response_text, len(e.tokens), e.turn, judge.history, judge.recorded) == ("0.5", 0, None, [], [])
    assert list_of(judge.logprobs([2, 4, 6])) == [-2, -3]
    assert gateway.asked[1][:2] == ("/v1/logprobs", {"tokens": [2, 4, 6], "model": "judge"})
    with pytest.raises(NotImplementedError, match="of judge: nothing is recorded of a model that is not trained"):
        judge.convert_messages_to_experience(HELLO)


def test_log_probabilities_of_a_teacher_are_posted(gateway: Gateway) -> None:
    model = of(gateway)
    (e,) = model.chat(HELLO)
    exact = [-0.10000000149011612, -1.1754943508222875e-38, -123456.7890625][: len(e.tokens) - e.prompt_length]
    e.reward, e.teacher_logprobs = 1.0, exact
    (posted,) = to_posted([e], model.recorded)["experiences"]
    assert array.array("f", posted["teacher_logprobs"]).tolist() == exact
    e.action_mask = [i > 0 for i in range(len(exact))]
    e.teacher_logprobs = [float("nan"), *exact[1:]]
    (posted,) = to_posted([e], model.recorded)["experiences"]
    assert posted["teacher_logprobs"][0] is None
    for wrong, says in (
        ([*exact[:-1], float("inf")], "teacher_logprobs of experience 0 are inf at token"),
        (exact[1:], f"are {len(exact) - 1}, and its response has {len(exact)} tokens"),
    ):
        e.teacher_logprobs = wrong
        with pytest.raises(Told, match=says):
            to_posted([e], model.recorded)


def test_connections_are_kept(gateway: Gateway) -> None:
    model = of(gateway)
    for _ in range(5):
        model.chat(HELLO)
    assert gateway.connections == 1
    keys = [headers["Idempotency-Key"] for _, _, headers in gateway.asked]
    assert len(set(keys)) == 5  # the same words are other calls
    gateway.drop = True
    model.chat(HELLO)
    gateway.drop = False
    model.chat(HELLO)  # whose connection the server has closed
    assert gateway.connections == 2


def test_many_at_once(gateway: Gateway) -> None:
    async def ask() -> int:
        model = of(gateway)
        replies = await asyncio.gather(*(model.chat_async(HELLO) for _ in range(20)))
        assert sorted(e.turn for one in replies for e in one if e.turn is not None) == list(range(20))
        return len(model.extract_experience_from_history())

    assert asyncio.run(ask()) == 20


def test_a_server_that_refuses(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    model = of(gateway)
    gateway.refuse.append((503, {}, '{"error": {"message": "busy"}}'))
    assert model.chat(HELLO)[0].turn == 1
    (first, again) = (headers["Idempotency-Key"] for _, _, headers in gateway.asked)
    assert first == again
    for status, headers, answer, want, attempts in (
        (
            429,
            {"x-should-retry": "false"},
            '{"error": {"message": "it may make 2 calls"}}',
            "chat/completions: it may make 2 calls",
            1,
        ),
        (400, {}, '{"error": "no"}', "chat/completions: no", 1),
        (500, {}, "oh", "status 500: oh", 1),
        (503, {}, "{}", "status 503", 3),
    ):
        gateway.asked.clear()
        gateway.refuse = [(status, headers, answer)] * attempts
        with pytest.raises(ModelError, match=want):
            model.chat(HELLO)
        assert len(gateway.asked) == attempts
    with pytest.raises(ConnectionError):
        ModelWrapper([{"base_url": "http://127.0.0.1:9/v1", "api_key": ""}], {}).chat(HELLO)


def test_state_and_clones(gateway: Gateway) -> None:
    async def go() -> dict[str, Any]:
        await model.set_workflow_state({"a": 1})
        state = await model.get_workflow_state()
        await model.clean_workflow_state()
        return state | {"after": await model.get_workflow_state()}

    model = of(gateway)
    clone = model.clone_with_isolated_history()
    clone.chat(HELLO)
    assert model.history == [] and len(clone.history) == 1 and len(model.recorded) == 1
    assert asyncio.run(go()) == {"a": 1, "after": {}}


@pytest.mark.skipif(not HAS_OPENAI, reason="openai is not installed")
def test_clients_of_openai(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    model = of(gateway)
    client = model.get_openai_client()
    assert client is model.get_openai_client() and client.model_path == "/models/m"
    reply = client.chat.completions.create(model=client.model_path, messages=HELLO, extra_body={"min_tokens": 1})
    assert reply.choices[0].message.content == "ok0" and gateway.asked[0][1]["model"] == "m"
    assert gateway.asked[0][1]["min_tokens"] == 1 and gateway.asked[0][1]["return_token_ids"]
    (e,) = model.extract_experience_from_history()
    assert (e.turn, list_of(e.tokens), list_of(e.logprobs)) == (0, list(b"hiok0"), [-0.25, -0.5, -0.75])

    async def ask() -> None:
        asynchronous = model.get_openai_async_client()
        await asyncio.gather(*(asynchronous.chat.completions.create(model="m", messages=HELLO) for _ in range(3)))

    for turns in ([1, 2, 3], [4, 5, 6]):  # two loops
        asyncio.run(ask())
        assert sorted(e.turn for e in model.extract_experience_from_history() if e.turn is not None) == turns
    other = of(gateway).get_openai_client()
    assert other is not client and other._client is client._client  # connections are shared
    assert not any("key0" in record.getMessage() for record in caplog.records)
