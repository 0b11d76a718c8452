"""A bare asyncio client of the vLLM server that our side asks as well: all prompts at once, tokens a second of the whole call."""
import asyncio
import time

import aiohttp
from turns import serve, spec

new, address = spec["new"], spec["server"] + "/v1"


async def ask(session, model, number, i, tokens):
    body = {"model": model, "prompt": tokens, "max_tokens": new, "ignore_eos": True, "temperature": 1, "seed": i, "logprobs": 0,
            "return_token_ids": True, "return_tokens_as_token_ids": True,
            "cache_salt": "peer"}  # the other side has sent the same prompts just before, which are in the server's cache
    async with session.post(address + "/completions", json=body) as reply:
        reply.raise_for_status()
        choice = (await reply.json())["choices"][0]
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == new, (number, i, choice)


async def call(number):
    prompts = spec["calls"][number]
    # The server ends idle connections after 5 s, in which the other side runs.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async with session.get(address + "/models") as reply:
            model = (await reply.json())["data"][0]["id"]
        begin = time.perf_counter()
        await asyncio.gather(*(ask(session, model, number, i, tokens) for i, tokens in enumerate(prompts)))
        return len(prompts) * new / (time.perf_counter() - begin)


serve(lambda number: {"value": asyncio.run(call(number))})
