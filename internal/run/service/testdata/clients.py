"""Calls a service as the official clients of OpenAI and Anthropic do: ADDRESS KEY POOR-KEY CHECKPOINT."""

import json
import sys

import anthropic
import openai

address, key, poor, checkpoint = sys.argv[1:]
BASE = "own/tiny"
hi = [{"role": "user", "content": "hi"}]
done = []


def call(name, holds):
    assert holds, name
    done.append(name)


client = openai.OpenAI(base_url=address + "/oai/api/v1", api_key=key, max_retries=0)
call("models.list", {m.id for m in client.models.list()} == {BASE, "other", checkpoint})
call("models.retrieve", client.models.retrieve(checkpoint).id == checkpoint)
for model in (BASE, checkpoint):
    chat = client.chat.completions.create(model=model, messages=hi, max_tokens=4, temperature=0, logprobs=True, top_logprobs=2)
    call("chat " + model, chat.model == model and chat.choices[0].logprobs.content)
    chunks = list(client.chat.completions.create(
        model=model, messages=hi, max_tokens=4, temperature=0, stream=True, stream_options={"include_usage": True}))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    call("stream " + model, said == chat.choices[0].message.content and chunks[-1].usage == chat.usage)
plain = client.completions.create(model=checkpoint, prompt=["hi", "ho"], max_tokens=2, echo=True, logprobs=1)
call("completions", [c.text[:2] for c in plain.choices] == ["hi", "ho"] and len(plain.choices[0].logprobs.tokens) > 2)

response = client.responses.create(model=checkpoint, input="hi", max_output_tokens=4)
call("responses", response.status in ("completed", "incomplete"))
call("responses.retrieve", client.responses.retrieve(response.id) == response)
after = client.responses.create(model=BASE, input="and", max_output_tokens=4, previous_response_id=response.id)
call("continued", after.usage.input_tokens > response.usage.input_tokens)
kinds = [e.type for e in client.responses.create(model=checkpoint, input="hi", max_output_tokens=4, stream=True)]
call("responses stream", kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"))

claude = anthropic.Anthropic(base_url=address, api_key=key, max_retries=0)
message = claude.messages.create(model=checkpoint, max_tokens=4, messages=hi)
call("messages", message.usage.output_tokens > 0)
with claude.messages.stream(model=checkpoint, max_tokens=4, messages=hi) as stream:
    call("messages stream", stream.get_final_message().usage.output_tokens > 0)

try:
    client.chat.completions.create(model=checkpoint[:-1] + "x", messages=hi)
except openai.NotFoundError as e:
    call("not found", e.code == "model_not_found")
other = openai.OpenAI(base_url=address + "/v1", api_key=poor, max_retries=0)
other.chat.completions.create(model=BASE, messages=hi, max_tokens=4)
try:
    other.chat.completions.create(model=BASE, messages=hi, max_tokens=4)
except openai.RateLimitError as e:
    call("limited", int(e.response.headers["retry-after"]) > 600 and "has used its 1 tokens of an hour" in e.message)
print(json.dumps(done))
