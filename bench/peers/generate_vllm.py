"""vLLM on CPU, compiled, its prefix cache on: sampled tokens a second, of the whole call or while all sequences decode; or prefill speed
when one token is wanted."""
import time

from turns import serve, spec
from vllm_here import start

new = spec["new"]


def batch(llm, params, number):
    """Tokens of the steps in which all sequences decode, and the times of start, before these steps, after them, and end."""
    engine, prompts = llm.llm_engine, spec["calls"][number]
    begin = time.perf_counter()
    for i, tokens in enumerate(prompts):
        engine.add_request(f"{number}-{i}", {"prompt_token_ids": tokens}, params)
    counts, first, before, last, after = {}, None, 0, None, 0
    while engine.has_unfinished_requests():
        for out in engine.step():
            counts[out.request_id] = len(out.outputs[0].token_ids)
        if first is None and len(counts) == len(prompts):
            first, before = time.perf_counter(), sum(counts.values())
        elif last is None and new in counts.values():
            last, after = time.perf_counter(), sum(counts.values())
    assert list(counts.values()) == [new] * len(prompts), counts
    return after - before, begin, first, last, time.perf_counter()


def main():
    from vllm import SamplingParams

    llm = start(spec["peer_model"], disable_log_stats=True)
    params = SamplingParams(temperature=1.0, max_tokens=new, ignore_eos=True, detokenize=False)

    def run(number):
        count, begin, first, last, end = batch(llm, params, number)
        prompts = spec["calls"][number]
        if spec["whole"]:
            return {"value": len(prompts) * new / (end - begin)}
        if new == 1:
            return {"value": sum(map(len, prompts)) / (end - begin)}
        return {"value": count / (last - first)}

    serve(run)


if __name__ == "__main__":
    main()
