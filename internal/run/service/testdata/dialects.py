"""Calls a server in all dialects as the official clients of OpenAI and Anthropic do: ADDRESS KEY MODEL."""

import json
import sys
from typing import Literal

import anthropic
import httpx2 as httpx
import openai
from pydantic import BaseModel

address, key, model = sys.argv[1:]
hi = [{"role": "user", "content": "hi"}]
done = []


def call(name, holds):
    assert holds, name
    done.append(name)


def refused(name, kind, ask, *words):
    """Checks the type of an error and words of its body."""
    try:
        ask()
    except kind as e:
        call(name, all(w in f"{e} {e.body}" for w in words))
    else:
        raise AssertionError(name)


class Answer(BaseModel):
    word: Literal["yes", "no"]
    sure: bool


schema = {
    "type": "object",
    "properties": {"place": {"enum": ["Oslo", "Rome"]}},
    "required": ["place"],
    "additionalProperties": False,
}
weather = {"type": "function", "function": {"name": "weather", "parameters": schema}}
clock = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}, "additionalProperties": False}}}

# Chats and completions.
client = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=0)
create = client.chat.completions.create
text = create(model=model, messages=hi, max_tokens=8, seed=1, n=2, logprobs=True, top_logprobs=3)
call("chat", len(text.choices) == 2 and len(text.choices[0].logprobs.content[0].top_logprobs) == 3)
chunks = list(create(model=model, messages=hi, max_tokens=8, seed=1, n=2, logprobs=True, top_logprobs=3, stream=True,
                     stream_options={"include_usage": True}))
for i, choice in enumerate(text.choices):
    of = [c.choices[0] for c in chunks if c.choices and c.choices[0].index == i]
    call("streamed", "".join(c.delta.content or "" for c in of) == choice.message.content)
    call("streamed logprobs", [p for c in of if c.logprobs for p in c.logprobs.content] == choice.logprobs.content)
    call("finish reason", of[-1].finish_reason == choice.finish_reason and [c.finish_reason for c in of[:-1]] == [None] * (len(of) - 1))
call("usage of the stream", chunks[-1].usage == text.usage and chunks[-1].choices == [])
call("penalties", create(model=model, messages=hi, max_tokens=4, presence_penalty=1, frequency_penalty=0.5).choices[0].sampled_from == "constrained")
biased = create(model=model, messages=hi, max_tokens=4, logit_bias={"97": 100}, temperature=0)
call("logit_bias", biased.usage.completion_tokens == 4 and len(set(biased.choices[0].message.content)) == 1)
call("stop", "o" not in create(model=model, messages=hi, max_tokens=40, logit_bias={"97": 20}, stop=["o", "\n"]).choices[0].message.content)
plain = client.completions.create(model=model, prompt=["ab", "cd"], max_tokens=0, echo=True, logprobs=1)
call("echo", [c.text for c in plain.choices] == ["ab", "cd"] and plain.choices[0].logprobs.token_logprobs[0] is None)
plain = client.completions.create(model=model, prompt="ab", max_tokens=4, n=2, best_of=4, extra_body={"prompt_logprobs": 1})
call("best_of", len(plain.choices) == 2 and plain.usage.completion_tokens > 8 and len(plain.choices[0].prompt_logprobs) == 2)
refused("suffix", openai.BadRequestError, lambda: client.completions.create(model=model, prompt="a", suffix="b"), "suffix", "leave it out")

# Replies with a form.
parsed = client.chat.completions.parse(model=model, messages=hi, response_format=Answer).choices[0].message.parsed
call("chat.completions.parse", isinstance(parsed, Answer))
with client.chat.completions.stream(model=model, messages=hi, response_format=Answer) as stream:
    call("chat.completions.stream", isinstance(stream.get_final_completion().choices[0].message.parsed, Answer))
loaded = json.loads(create(model=model, messages=hi, max_tokens=400, temperature=0.2, response_format={"type": "json_object"}, seed=2,
                           logit_bias={"125": 60}).choices[0].message.content)
call("json_object", isinstance(loaded, dict))
for form, value, fits in (
    ("guided_regex", "[ab]{3}", lambda t: len(t) == 3 and set(t) <= set("ab")),
    ("regex", "[0-9]{2}", str.isdigit),
    ("guided_choice", ["left", "right"], ["left", "right"].__contains__),
    ("guided_json", schema, lambda t: json.loads(t)["place"] in ("Oslo", "Rome")),
    ("structured_outputs", {"choice": ["up", "down"]}, ["up", "down"].__contains__),
    ("structured_outputs", {"json": schema}, lambda t: json.loads(t)["place"] in ("Oslo", "Rome")),
):
    call(form, fits(create(model=model, messages=hi, extra_body={form: value}).choices[0].message.content))
    call(form + " of a completion", fits(client.completions.create(model=model, prompt="ab", max_tokens=200, extra_body={form: value}).choices[0].text))

# Tools: a loop with the demanded call, its result and the next reply.
chat = create(model=model, messages=hi, tools=[weather, clock], tool_choice="required", parallel_tool_calls=False)
[one] = chat.choices[0].message.tool_calls
call("tool_choice required", chat.choices[0].finish_reason == "tool_calls" and one.function.name in ("weather", "clock"))
chat = create(model=model, messages=hi, tools=[weather, clock], tool_choice={"type": "function", "function": {"name": "weather"}})
[one] = chat.choices[0].message.tool_calls
call("tool_choice by name", json.loads(one.function.arguments)["place"] in ("Oslo", "Rome"))
loop = hi + [chat.choices[0].message, {"role": "tool", "tool_call_id": one.id, "content": "cold"}]
call("tool result", create(model=model, messages=loop, tools=[weather], max_tokens=4).usage.prompt_tokens > chat.usage.prompt_tokens)
deltas = [c.choices[0].delta for c in create(
    model=model, messages=hi, tools=[weather], tool_choice="required", parallel_tool_calls=False, stream=True) if c.choices]
call("streamed call", [t.function.name for d in deltas for t in d.tool_calls or []][0] == "weather")
call("no tool", not create(model=model, messages=hi, tools=[weather], tool_choice="none", max_tokens=4).choices[0].message.tool_calls)
refused("unknown tool", openai.BadRequestError, lambda: create(
    model=model, messages=hi, tools=[weather], tool_choice={"type": "function", "function": {"name": "x"}}), "tool_choice", "x")
refused("custom tool", openai.BadRequestError, lambda: create(
    model=model, messages=hi, tools=[{"type": "custom", "custom": {"name": "x"}}]), "tools", "custom")

# Responses.
respond = client.responses.create
first = respond(model=model, input="hi", max_output_tokens=4, temperature=0)
call("responses", first.status == "incomplete" and first.incomplete_details.reason == "max_output_tokens" and first.model == model)
then = respond(model=model, input="and", max_output_tokens=4, previous_response_id=first.id, instructions="be brief")
items = client.responses.input_items.list(then.id, order="asc", limit=1)
call("input_items", [i.content[0].text for i in items] == ["hi", first.output_text, "and"])
call("input_tokens", client.responses.input_tokens.count(
    model=model, input="and", previous_response_id=first.id, instructions="be brief").input_tokens == then.usage.input_tokens)
with client.responses.stream(model=model, input="hi", max_output_tokens=8, temperature=0) as stream:
    events = list(stream)
    final = events[-1].response
    said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    call("responses.stream", events[-1].type == "response.incomplete" and said == final.output_text)
counts = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
whole = respond(model=model, input="hi", max_output_tokens=8, temperature=0, **counts).output[0].content[0].logprobs
events = list(respond(model=model, input="hi", max_output_tokens=8, temperature=0, stream=True, **counts))
parts = [p for e in events if e.type == "response.output_text.delta" for p in e.logprobs]
told = [e.logprobs for e in events if e.type == "response.output_text.done"][0]
call("logprobs of a response", len(whole) == 8 and all(len(p.top_logprobs) == 2 for p in whole))
call("logprobs of its stream", [(p.token, p.logprob) for p in whole] == [(p.token, p.logprob) for p in told]
     and [p.logprob for p in parts] == [p.logprob for p in whole][:len(parts)] and len(parts) > 1)
call("retrieve", client.responses.retrieve(final.id).output_text == final.output_text)
call("delete", client.responses.delete(final.id) is None)
refused("deleted", openai.NotFoundError, lambda: client.responses.retrieve(final.id), "there is no response")
refused("continued", openai.BadRequestError, lambda: respond(model=model, input="x", previous_response_id=final.id), "previous_response_not_found")
refused("cancel", openai.BadRequestError, lambda: client.responses.cancel(first.id), "background")
refused("background", openai.BadRequestError, lambda: respond(model=model, input="x", background=True), "background", "leave it out")
call("responses.parse", isinstance(client.responses.parse(model=model, input="hi", text_format=Answer).output_parsed, Answer))
with client.responses.stream(model=model, input="hi", text_format=Answer) as stream:
    call("responses.stream of a form", isinstance(stream.get_final_response().output_parsed, Answer))
flat = {"type": "function", "name": "weather", "parameters": schema, "strict": True}
made = respond(model=model, input="hi", tools=[flat], tool_choice="required", parallel_tool_calls=False)
[one] = [i for i in made.output if i.type == "function_call"]
call("responses with a tool", json.loads(one.arguments)["place"] in ("Oslo", "Rome"))
answered = respond(model=model, previous_response_id=made.id, tools=[flat], max_output_tokens=4, input=[
    {"type": "function_call_output", "call_id": one.call_id, "output": "cold"}])
call("its output", [i.type for i in client.responses.input_items.list(answered.id, order="asc")]
     == ["message", "function_call", "function_call_output"])

# Messages.
claude = anthropic.Anthropic(base_url=address, api_key=key, max_retries=0)
ask = claude.messages.create
message = ask(model=model, max_tokens=8, messages=hi, system="be brief", extra_body={"temperature": 0, "top_k": 5})
call("messages", message.stop_reason == "max_tokens" and message.model == model)
with claude.messages.stream(model=model, max_tokens=8, messages=hi, system="be brief", extra_body={"temperature": 0, "top_k": 5}) as stream:
    call("messages.stream", stream.get_final_text() == message.content[0].text)
call("count_tokens", claude.messages.count_tokens(model=model, messages=hi, system="be brief").input_tokens == message.usage.input_tokens)
tool = {"name": "weather", "input_schema": schema}
used = ask(model=model, max_tokens=200, messages=hi, tools=[tool], tool_choice={"type": "any", "disable_parallel_tool_use": True})
[one] = [b for b in used.content if b.type == "tool_use"]
call("tool_choice any", used.stop_reason == "tool_use" and one.input["place"] in ("Oslo", "Rome"))
after = ask(model=model, max_tokens=4, tools=[tool], messages=hi + [
    {"role": "assistant", "content": used.content},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": one.id, "content": "cold"}]}])
call("tool_result", after.usage.input_tokens > used.usage.input_tokens)
with claude.messages.stream(model=model, max_tokens=200, messages=hi, tools=[tool], tool_choice={"type": "tool", "name": "weather"}) as stream:
    call("streamed tool_use", stream.get_final_message().content[-1].input["place"] in ("Oslo", "Rome"))
call("messages.parse", isinstance(claude.messages.parse(model=model, max_tokens=200, messages=hi, output_format=Answer).parsed_output, Answer))
refused("no max_tokens", anthropic.BadRequestError, lambda: claude.post(
    "/v1/messages", body={"model": model, "messages": hi}, cast_to=object), "invalid_request_error", "max_tokens")

# Errors have the form of their dialect, and pictures are refused in words.
picture = {"url": "data:image/png;base64,AA=="}
refused("picture in a chat", openai.BadRequestError, lambda: create(model=model, messages=[
    {"role": "user", "content": [{"type": "image_url", "image_url": picture}]}]), "messages", "image_url")
refused("picture in a response", openai.BadRequestError, lambda: respond(model=model, input=[
    {"role": "user", "content": [{"type": "input_image", "image_url": picture["url"]}]}]), "input", "input_image")
refused("picture in a message", anthropic.BadRequestError, lambda: ask(model=model, max_tokens=4, messages=[
    {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]}]), "image")
refused("unknown model", openai.NotFoundError, lambda: respond(model="gpt-9", input="x"), "model_not_found")
refused("unknown model of a message", anthropic.NotFoundError, lambda: ask(model="claude-9", max_tokens=4, messages=hi), "not_found_error")
refused("too many replies", openai.BadRequestError, lambda: create(model=model, messages=hi, n=10**6), "128")
refused("deep schema", openai.BadRequestError, lambda: create(model=model, messages=hi, extra_body={
    "guided_json": '{"type":"array","items":' * 10**4 + "{}" + "}" * 10**4}), "guided_json", "64 levels")
refused("no such endpoint", openai.NotFoundError, lambda: client.embeddings.create(model=model, input="x"), "/v1/embeddings")
refused("no such endpoint of messages", anthropic.NotFoundError, lambda: claude.messages.batches.list(), "not_found_error")
wrong = anthropic.Anthropic(base_url=address, api_key="tml-wrong", max_retries=0)
refused("wrong key of a message", anthropic.AuthenticationError, lambda: wrong.messages.create(
    model=model, max_tokens=4, messages=hi), "authentication_error")
wrong = openai.OpenAI(base_url=address + "/v1", api_key="tml-wrong", max_retries=0)
refused("wrong key", openai.AuthenticationError, lambda: wrong.chat.completions.create(model=model, messages=hi), "invalid_api_key")



# A client repeats a request whose answer it has lost.
class Losing(httpx.HTTPTransport):
    attempts = 0

    def handle_request(self, request):
        response = super().handle_request(request)
        self.attempts += 1
        if self.attempts % 2:
            response.read()
            raise httpx.ReadError("lost", request=request)
        return response


lossy = httpx.Client(transport=Losing())
again = openai.OpenAI(base_url=address + "/v1", api_key=key, max_retries=1, http_client=lossy)
call("repeated", again.responses.create(model=model, input="hi", max_output_tokens=4).usage.output_tokens > 0)
again = anthropic.Anthropic(base_url=address, api_key=key, max_retries=1, http_client=lossy)
call("repeated message", again.messages.create(model=model, max_tokens=4, messages=hi).usage.output_tokens > 0)

# A client that leaves a stream frees its place at once.
for _ in range(8):
    with create(model=model, messages=hi, n=16, stream=True) as cut:
        next(iter(cut))
    with claude.messages.stream(model=model, max_tokens=400, messages=hi) as cut:
        next(iter(cut))
call("after cut streams", create(model=model, messages=hi, max_tokens=2).usage.completion_tokens > 0)
print(json.dumps(done))
