"""llama.cpp: sampled tokens a second, of the whole call or after every sequence has its first token; or prefill speed when one token is wanted."""
import time

import llama_cpp
from turns import serve, spec

new, rows, size = spec["new"], spec["batch"], spec["prompt"]
llama_cpp.llama_log_set(quiet := llama_cpp.llama_log_callback(lambda *line: None), None)
llama_cpp.llama_backend_init()
model = llama_cpp.llama_model_load_from_file(spec["peer_model"].encode(), llama_cpp.llama_model_default_params())
assert model, "llama.cpp reads no model in " + spec["peer_model"]
settings = llama_cpp.llama_context_default_params()
settings.n_ctx = rows * (size + new)
settings.n_batch, settings.n_ubatch, settings.n_seq_max = 2048, 512, rows
settings.n_threads = settings.n_threads_batch = spec["threads"]
settings.kv_unified = False
context = llama_cpp.llama_init_from_model(model, settings)
assert context, "llama.cpp makes no context"
draw = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
llama_cpp.llama_sampler_chain_add(draw, llama_cpp.llama_sampler_init_temp(1.0))
llama_cpp.llama_sampler_chain_add(draw, llama_cpp.llama_sampler_init_dist(0))
batch = llama_cpp.llama_batch_init(settings.n_batch, 0, 1)


def decode(entries):
    """entries are (token, position, sequence, wants logits)."""
    for i, (token, position, sequence, wanted) in enumerate(entries):
        batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
    batch.n_tokens = len(entries)
    assert llama_cpp.llama_decode(context, batch) == 0, "llama_decode failed"


def prefill(prompts):
    """The first token of each sequence."""
    tokens = []
    together = max(1, settings.n_batch // size)
    for start in range(0, rows, together):
        part = range(start, min(rows, start + together))
        decode([(t, i, s, i == size - 1) for s in part for i, t in enumerate(prompts[s])])
        tokens += [llama_cpp.llama_sampler_sample(draw, context, (k + 1) * size - 1) for k in range(len(part))]
    return tokens


def run(number):
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    begin = time.perf_counter()
    tokens = prefill(spec["calls"][number])
    first = time.perf_counter()
    for step in range(new - 1):
        decode([(t, size + step, s, True) for s, t in enumerate(tokens)])
        tokens = [llama_cpp.llama_sampler_sample(draw, context, s) for s in range(rows)]
    end = time.perf_counter()
    if spec["whole"]:
        return {"value": rows * new / (end - begin)}
    if new == 1:
        return {"value": rows * size / (end - begin)}
    return {"value": rows * (new - 1) / (end - first)}


serve(run)
