# Writes a tiny teacher, wider and deeper than its students and with a vocabulary that is padded beyond theirs, and what PyTorch says in float64
# of divergences from it over the whole vocabulary: values, a loss on them, and its gradient by some of the students' weights.
# usage: record_distill.py [OUT_DIR]      needs torch, transformers, safetensors; run record.py first
import gzip, json, os, sys
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig

here = os.path.dirname(os.path.abspath(__file__))
out = sys.argv[1] if len(sys.argv) > 1 else here
teacher_config = LlamaConfig(hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=3, vocab_size=70,
                             max_position_embeddings=64, bos_token_id=0, eos_token_id=1, pad_token_id=None, attn_implementation="eager",
                             tie_word_embeddings=False, rope_parameters=dict(rope_theta=10000.0, rope_type="default"))
students = {"llama": ["lm_head.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight"],
            "qwen3": ["model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight"]}

def initialise(m, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(m.named_parameters()):
            v = torch.randn(p.shape, generator=g) / p.shape[-1] ** 0.5 if p.dim() == 2 else 1 + 0.2 * torch.randn(p.shape, generator=g)
            p.copy_(v.half().float())  # so that the file can be F16

def logs(m, s, vocabulary):  # log-probabilities [T-1, V] of the token after each
    z = m(input_ids=torch.tensor([s["tokens"][:-1]])).logits[0, :, :vocabulary].double()
    return torch.log_softmax(z / s["temperature"], -1)

def kl(a, b):  # KL(a‖b) of log-probabilities
    return (a.exp() * (a - b)).sum(-1)

def jsd(beta):  # Agarwal et al. 2024, equation 2
    def f(p, q):
        m = (beta * p.exp() + (1 - beta) * q.exp()).log()
        return beta * kl(p, m) + (1 - beta) * kl(q, m)
    return f

divergences = {"forward_kl": lambda p, q: kl(p, q), "reverse_kl": lambda p, q: kl(q, p), "jsd 0.5": jsd(0.5), "jsd 0.2": jsd(0.2)}

def write_json(path, value):
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(json.dumps(value).encode())

teacher = AutoModelForCausalLM.from_config(teacher_config, attn_implementation="eager")
initialise(teacher, 23)
d = os.path.join(out, "teacher")
os.makedirs(d, exist_ok=True)
save_file({k: v.detach().half().contiguous() for k, v in teacher.named_parameters()}, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
teacher.config.save_pretrained(d)
teacher = teacher.double()

sequences = json.load(gzip.open(os.path.join(here, "sequences.json.gz")))
trained = sum(sum(s["mask"]) for s in sequences)
results, tensors = {}, {}
for name, keep in students.items():
    student = AutoModelForCausalLM.from_pretrained(os.path.join(here, name), dtype=torch.float64, attn_implementation="eager")
    results[name] = {}
    for kind, divergence in divergences.items():
        student.zero_grad()
        loss, values = 0, []
        for s in sequences:
            with torch.no_grad():
                p = logs(teacher, s, 64)
            v = torch.cat([torch.zeros(1, dtype=torch.float64), divergence(p, logs(student, s, 64))])
            v = torch.where(torch.tensor(s["mask"]), v, 0.0)
            values.append(v.tolist())
            loss = loss + (v * torch.tensor(s["w_logprob"], dtype=torch.float64)).sum() / trained
        loss.backward()
        results[name][kind] = dict(loss=loss.item(), values=values)
        parameters = dict(student.named_parameters())
        tensors.update({f"{name}.{kind}.{n}": parameters[n].grad.float().contiguous() for n in keep})
write_json(os.path.join(out, "distill.json.gz"), results)
save_file(tensors, os.path.join(out, "distill.safetensors"))
