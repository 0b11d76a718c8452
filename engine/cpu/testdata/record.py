# Writes tiny models and what PyTorch and transformers say of them: log-probabilities, entropies and gradients of two losses.
# usage: record.py [OUT_DIR [MODEL…]]      all of it, or the named models alone; needs torch, transformers, safetensors
import gzip, json, os, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GraniteConfig, GraniteMoeHybridConfig, Lfm2Config, LlamaConfig, Ministral3Config, MistralConfig, Olmo3Config, Phi3Config
from transformers import Qwen2Config, Qwen3Config, Qwen3MoeConfig, SmolLM3Config

out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
base = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            vocab_size=64, max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None, attn_implementation="eager")
rope = lambda **k: dict(rope_parameters=dict(rope_theta=10000.0, **k))
llama3 = rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
models = {
    "llama": LlamaConfig(**base, tie_word_embeddings=False, **rope(rope_type="default")),
    "llama3_bias_tied": LlamaConfig(**base, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, **llama3),
    "qwen2": Qwen2Config(**base, tie_word_embeddings=True, **rope(rope_type="default")),
    "qwen3": Qwen3Config(**base, head_dim=16, tie_word_embeddings=True, **rope(rope_type="default")),
    "qwen3_moe": Qwen3MoeConfig(**base, head_dim=16, tie_word_embeddings=True, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[0],
                                norm_topk_prob=True, experts_implementation="eager", **rope(rope_type="default")),
    "qwen3_moe_sums": Qwen3MoeConfig(**base, head_dim=8, tie_word_embeddings=True, num_experts=4, num_experts_per_tok=3, moe_intermediate_size=12,
                                     norm_topk_prob=False, router_aux_loss_coef=0.3, experts_implementation="eager", **rope(rope_type="default")),
    "smollm3": SmolLM3Config(**{**base, "num_hidden_layers": 3}, no_rope_layer_interval=2, tie_word_embeddings=True, **rope(rope_type="default")),
    "phi3": Phi3Config(**{**base, "max_position_embeddings": 1024}, original_max_position_embeddings=256, tie_word_embeddings=True,
                       **rope(rope_type="longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.5, 2.5], long_factor=[1.0, 4.0, 16.0])),
    "ministral3": Ministral3Config(**base, head_dim=16, tie_word_embeddings=False,
                                   **rope(rope_type="yarn", factor=8.0, original_max_position_embeddings=8, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                                          mscale_all_dim=1.0, llama_4_scaling_beta=0.5)),
    "gemma3_text": Gemma3TextConfig(**{**base, "num_hidden_layers": 3}, head_dim=12, query_pre_attn_scalar=9, sliding_window=5, attention_bias=True,
                                    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                    rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
                                                         sliding_attention=dict(rope_type="default", rope_theta=100.0))),
    "olmo3": Olmo3Config(**{**base, "num_hidden_layers": 3}, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                         rope_parameters=dict(full_attention=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, rope_theta=500000.0),
                                              sliding_attention=dict(rope_type="default", rope_theta=500000.0))),
    "granite": GraniteConfig(**base, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.4,
                             logits_scaling=2.0, **rope(rope_type="default")),
    "granitemoehybrid": GraniteMoeHybridConfig(**{**base, "intermediate_size": 24}, shared_intermediate_size=40, num_local_experts=0, mamba_n_heads=4,
                                               layer_types=["full_attention"] * 2, embedding_multiplier=0.5, attention_multiplier=0.3,
                                               residual_multiplier=1.5, logits_scaling=0.7),
    "lfm2": Lfm2Config(**{**base, "intermediate_size": 64, "num_hidden_layers": 3}, block_multiple_of=8, conv_L_cache=3,
                       layer_types=["conv", "conv", "full_attention"], **rope(rope_type="default")),
    "mistral": MistralConfig(**base, sliding_window=5, tie_word_embeddings=False, **rope(rope_type="default")),
}
adapted = ["qwen2", "smollm3", "gemma3_text", "olmo3", "phi3", "granite", "lfm2"]  # models that are recorded with an adapter, too
stepped = ["smollm3", "gemma3_text", "olmo3", "phi3", "ministral3", "granite", "granitemoehybrid", "lfm2"]  # models whose optimizer steps are recorded, too
offset = ["gemma3_text"]  # norms multiply by 1 + weight
scalings = {
    "linear": dict(rope_type="linear", factor=4.0),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16),
}

def initialise(m, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(m.named_parameters()):
            if p.dim() >= 2:
                v = torch.randn(p.shape, generator=g) / p.shape[-1] ** 0.5
            elif name.endswith("norm.weight"):
                v = (0 if m.config.model_type in offset else 1) + 0.2 * torch.randn(p.shape, generator=g)
            else:
                v = 0.1 * torch.randn(p.shape, generator=g)
            p.copy_(v.half().float())  # so that the file can be F16

def sequences():
    g = torch.Generator().manual_seed(7)
    r = lambda n: torch.randint(2, 64, (n,), generator=g).tolist()
    prompt, seqs = r(6), []
    for n in (9, 4, 12):  # a group that shares its prompt
        seqs.append(dict(tokens=prompt + r(n), mask=[False] * 6 + [True] * n, prompt_len=6, temperature=0.7))
    t = r(21)  # several turns: holes in the mask, everything after the first token may be trained
    seqs.append(dict(tokens=t, mask=[False] + [i % 7 not in (2, 3) for i in range(1, 21)], prompt_len=1, temperature=1.3))
    seqs.append(dict(tokens=r(5), mask=[False] * 5, prompt_len=3, temperature=1.0))  # nothing to train
    for s in seqs:
        n = len(s["tokens"])
        s["w_logprob"] = [round(x, 3) for x in torch.randn(n, generator=g).tolist()]
        s["w_entropy"] = [round(x, 3) for x in (0.3 * torch.randn(n, generator=g)).tolist()]
    return seqs

def streams(m, s, temperature):
    ids = torch.tensor([s["tokens"]])
    z = m(input_ids=ids[:, :-1]).logits[0].float() / temperature  # under dynamic scaling, the input's length counts
    lp = torch.log_softmax(z, -1)
    pick = lp.gather(1, ids[0, 1:, None])[:, 0]
    ent = -(lp.exp() * lp).sum(-1)
    zero = torch.zeros(1)
    mask = torch.tensor(s["mask"])
    return torch.where(mask, torch.cat([zero, pick]), 0.0), torch.where(mask, torch.cat([zero, ent]), 0.0)

def losses(m, seqs):
    trained = sum(sum(s["mask"]) for s in seqs)
    nll = -sum(streams(m, s, 1.0)[0].sum() for s in seqs) / trained
    mix = 0
    for s in seqs:
        lp, ent = streams(m, s, s["temperature"])
        mix = mix + (lp * torch.tensor(s["w_logprob"]) + ent * torch.tensor(s["w_entropy"])).sum() / trained
    return nll, mix

def grads(m, loss):
    m.zero_grad()
    loss.backward()
    return {n: p.contiguous() for name, q in m.named_parameters() if q.grad is not None for n, p in apart(name, q.grad.clone())}

def apart(name, p):  # in memory, transformers keeps the experts of a layer together
    if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
        yield name, p
        return
    for i, expert in enumerate(p):
        prefix = name[:name.rindex(".")] + f".{i}."
        if name.endswith("down_proj"):
            yield prefix + "down_proj.weight", expert
            continue
        gate, up = expert.chunk(2)
        yield prefix + "gate_proj.weight", gate
        yield prefix + "up_proj.weight", up

def steps(m, seqs):  # what three steps of AdamW move by, on the mean of -log p
    before = {k: v.detach().clone() for k, v in m.named_parameters()}
    opt = torch.optim.AdamW(m.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.1)
    for _ in range(3):
        m.zero_grad()
        losses(m, seqs)[0].backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
    moved = {k: p.contiguous() for name, v in m.named_parameters() for k, p in apart(name, v.detach() - before[name])}
    with torch.no_grad():
        for name, v in m.named_parameters():
            v.copy_(before[name])
    return moved

class LoRA(torch.nn.Module):  # Hu et al. 2021: W·x + (alpha/rank)·B·A·x
    def __init__(self, base, rank, alpha, g):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_A = torch.nn.Parameter((torch.randn(rank, base.in_features, generator=g) / base.in_features ** 0.5).half().float())
        self.lora_B = torch.nn.Parameter((0.3 * torch.randn(base.out_features, rank, generator=g)).half().float())
    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)

def add_lora(m, rank, alpha):
    g = torch.Generator().manual_seed(3)
    for p in m.parameters():
        p.requires_grad_(False)
    names = []
    for layer in m.model.layers:
        for part, order in (("self_attn", ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "out_proj")), ("conv", ("in_proj", "out_proj")),
                              ("mlp", ("gate_proj", "up_proj", "gate_up_proj", "down_proj")), ("feed_forward", ("w1", "w3", "w2"))):
            holder = getattr(layer, part, None)
            for n in order:
                if hasattr(holder, n):
                    setattr(holder, n, LoRA(getattr(holder, n), rank, alpha, g))
                    names.append(n)
    return list(dict.fromkeys(names))

def balance(m, seqs):  # transformers' load-balancing loss of each sequence, averaged over tokens: all before the last trained one
    loss, tokens = 0, 0
    for s in seqs:
        n = max([t for t, trained in enumerate(s["mask"]) if trained], default=0)
        if n > 0:
            loss, tokens = loss + n * m(input_ids=torch.tensor([s["tokens"][:n]]), output_router_logits=True).aux_loss, tokens + n
    loss = loss / tokens
    keep = ("layers.0.mlp.gate.weight", "layers.1.mlp.gate.weight", "layers.0.self_attn.q_norm.weight", "layers.0.self_attn.k_proj.weight",
            "layers.1.input_layernorm.weight", "layers.0.mlp.experts.1.down_proj.weight", "layers.0.mlp.experts.2.gate_proj.weight")
    return loss.item(), {k: v.contiguous() for k, v in grads(m, m.config.router_aux_loss_coef * loss).items() if k.endswith(keep)}

def reference(m, seqs):
    nll, mix = losses(m, seqs)
    tensors = {"nll." + k: v for k, v in grads(m, nll).items()}
    nll, mix = losses(m, seqs)
    tensors.update({"mix." + k: v for k, v in grads(m, mix).items()})
    with torch.no_grad():
        rows = []
        for s in seqs:
            lp, _ = streams(m, s, 1.0)
            lpt, ent = streams(m, s, s["temperature"])
            rows.append(dict(logprob=lp.tolist(), logprob_t=lpt.tolist(), entropy_t=ent.tolist()))
    return dict(nll=nll.item(), mix=mix.item(), rows=rows), tensors

def write_model(name, m):
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    save_file({k: v.detach().half().contiguous() for name, p in m.named_parameters() for k, v in apart(name, p)}, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
    m.config.save_pretrained(d)
    return d

def write_json(path, value):
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(json.dumps(value).encode())

def main():
    seqs, only = sequences(), sys.argv[2:]
    if not only:
        write_json(os.path.join(out, "sequences.json.gz"), seqs)
    for name, cfg in models.items():
        if only and name not in only:
            continue
        m = AutoModelForCausalLM.from_config(cfg, attn_implementation="eager")
        initialise(m, 11)
        d = write_model(name, m)
        ref, tensors = reference(m, seqs)
        write_json(os.path.join(d, "reference.json.gz"), ref)
        save_file(tensors, os.path.join(d, "gradients.safetensors"))
        if cfg.model_type == "qwen3_moe" and not cfg.norm_topk_prob:
            loss, gradients = balance(m, seqs)
            write_json(os.path.join(d, "reference_balance.json.gz"), dict(loss=loss))
            save_file(gradients, os.path.join(d, "gradients_balance.safetensors"))
        if name in stepped:
            save_file(steps(m, seqs), os.path.join(d, "steps.safetensors"))
        if name in adapted:
            targets = add_lora(m, 4, 8)
            save_file({"base_model.model." + k.replace(".base.", "."): v.detach().half().contiguous() for k, v in m.named_parameters() if "lora_" in k
                       for k in [k + ".weight"]}, os.path.join(d, "adapter_model.safetensors"), metadata={"format": "pt"})
            json.dump(dict(peft_type="LORA", r=4, lora_alpha=8, target_modules=targets,
                           bias="none", task_type="CAUSAL_LM", base_model_name_or_path="", fan_in_fan_out=False, use_rslora=False), open(os.path.join(d, "adapter_config.json"), "w"))
            ref, tensors = reference(m, seqs)
            write_json(os.path.join(d, "reference_lora.json.gz"), ref)
            save_file(tensors, os.path.join(d, "gradients_lora.safetensors"))
    if only:
        return
    scaled = {}
    for name, parameters in scalings.items():
        m = AutoModelForCausalLM.from_config(LlamaConfig(**{**base, "max_position_embeddings": 16 if name == "dynamic" else 64}, tie_word_embeddings=False, **rope(**parameters)), attn_implementation="eager")
        initialise(m, 11)  # the same weights as "llama"
        scaled[name] = dict(config=m.config.to_dict(), logprob=[streams(m, s, 1.0)[0].tolist() for s in seqs])
    write_json(os.path.join(out, "rope_scalings.json.gz"), scaled)
    write_json(os.path.join(out, "adamw.json.gz"), adamw())

def adamw():  # three steps with clipping, as torch.optim.AdamW and clip_grad_norm_ do them
    g = torch.Generator().manual_seed(5)
    p = torch.nn.Parameter(torch.randn(300, generator=g))
    start, steps = p.detach().tolist(), []
    opt = torch.optim.AdamW([p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for i in range(3):
        p.grad = torch.randn(300, generator=g) * (0.02, 1.0, 0.3)[i]
        gradient = p.grad.tolist()
        norm = torch.nn.utils.clip_grad_norm_([p], 2.0).item()
        opt.step()
        steps.append(dict(grad=gradient, norm=norm, after=p.detach().tolist()))
    return dict(lr=1e-2, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=2.0, start=start, steps=steps)

if __name__ == "__main__":
    main()
