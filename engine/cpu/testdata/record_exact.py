# Writes a small model with some large weights, as trained models have them, and its log-probabilities in float64, with the mean error that PyTorch's
# float32 has against them. With MODEL, it writes the float64 log-probabilities of that model and the texts in smollm2.json.gz instead.
# usage: record_exact.py [MODEL.gguf]      needs torch, transformers, safetensors, gguf
import gzip, json, os, sys
import torch, torch.nn.functional as F
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.models.llama import modeling_llama as llama

here = os.path.dirname(os.path.abspath(__file__))

def in_float64():
    """Removes the conversions to float32 from the Llama model."""
    softmax = F.softmax
    F.softmax = lambda x, dim=None, dtype=None, **_: softmax(x, dim=dim)
    llama.LlamaRMSNorm.forward = lambda self, x: self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))
    def rotary(self, x, position_ids):
        d = self.config.head_dim
        inverse = self.config.rope_parameters["rope_theta"] ** -(torch.arange(0, d, 2, dtype=torch.float64) / d)
        angle = position_ids[..., None].double() * inverse
        angle = torch.cat([angle, angle], -1)
        return angle.cos(), angle.sin()
    llama.LlamaRotaryEmbedding.forward = rotary

def logprobs(m, sequences):
    out = []
    with torch.no_grad():
        for tokens in sequences:
            ids = torch.tensor([tokens])
            z = m(input_ids=ids).logits[0]
            assert z.dtype == m.dtype
            out.append(torch.log_softmax(z, -1)[:-1].gather(1, ids[0, 1:, None])[:, 0].double())
    return out

def compare(load, sequences, path):
    single = {a: logprobs(load(a), sequences) for a in ("eager", "sdpa")}
    in_float64()
    exact = torch.cat(logprobs(load("eager").double(), sequences))
    errors = {a: (torch.cat(l) - exact).abs().mean().item() for a, l in single.items()}
    record = dict(sequences=sequences, logprobs=[round(v, 10) for v in exact.tolist()], torch_error=min(errors.values()))
    with open(os.path.join(here, path), "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(json.dumps(record).encode())
    print(errors, len(exact), "tokens")

if len(sys.argv) > 1:
    folder, file = os.path.split(os.path.abspath(sys.argv[1]))
    with gzip.open(os.path.join(here, "smollm2.json.gz")) as f:
        recorded = json.load(f)
    texts = [t["tokens"] for t in recorded["texts"][:5]] + [recorded["train"][:32], recorded["train"][100:228], recorded["train"][300:812]]
    load = lambda a: AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32, attn_implementation=a).eval()
    compare(load, texts, "smollm2_exact.json.gz")
    sys.exit()

out = os.path.join(here, "exact")
g = torch.Generator().manual_seed(11)
config = LlamaConfig(hidden_size=48, intermediate_size=192, num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, vocab_size=1024,
                     max_position_embeddings=512, bos_token_id=0, eos_token_id=1, pad_token_id=None, tie_word_embeddings=True,
                     rope_parameters=dict(rope_theta=10000.0, rope_type="default"))
m = AutoModelForCausalLM.from_config(config).float().eval()
with torch.no_grad():
    for name, p in sorted(m.named_parameters()):
        v = torch.randn(p.shape, generator=g)
        p.copy_((1 + 0.2 * v if p.dim() == 1 else v / p.shape[-1] ** 0.5).half().float())
    m.model.embed_tokens.weight.mul_(4)
    m.model.layers[0].mlp.down_proj.weight[:4].mul_(64)  # dimensions of the residual stream that exceed the others
    m.model.norm.weight[:4].mul_(1 / 64)
m.config.architectures = ["LlamaForCausalLM"]
os.makedirs(out, exist_ok=True)
m.config.save_pretrained(out)
save_file({k: v.half().contiguous() for k, v in m.state_dict().items() if k != "lm_head.weight"}, os.path.join(out, "model.safetensors"))
sequences = [torch.randint(2, 1024, (n,), generator=g).tolist() for n in (32, 128, 384)]
load = lambda a: AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation=a).eval()
compare(load, sequences, "exact/reference.json.gz")
