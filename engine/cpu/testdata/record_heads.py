# Writes a tiny critic (LlamaForTokenClassification of one label) with what PyTorch says of its values and of the gradient of a loss on them, also
# under LoRA with the head trained, and a tiny reward model (Qwen2ForSequenceClassification of three labels) with the scores of some sequences.
# usage: record_heads.py [OUT_DIR]      needs torch, transformers, safetensors; run record.py first
import gzip, json, os, sys
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForTokenClassification, Qwen2Config, Qwen2ForSequenceClassification

out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
base = dict(hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
            max_position_embeddings=64, bos_token_id=0, eos_token_id=1, attn_implementation="eager",
            rope_parameters=dict(rope_theta=10000.0, rope_type="default"))

def initialise(m, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(m.named_parameters()):
            if p.dim() == 2:
                v = torch.randn(p.shape, generator=g) / p.shape[1] ** 0.5
            elif name.endswith("norm.weight"):
                v = 1 + 0.2 * torch.randn(p.shape, generator=g)
            else:
                v = 0.1 * torch.randn(p.shape, generator=g)
            p.copy_(v.half().float())  # so that the file can be F16

def write_model(name, m):
    d = os.path.join(out, name)
    os.makedirs(d, exist_ok=True)
    save_file({k: v.detach().half().contiguous() for k, v in m.named_parameters()}, os.path.join(d, "model.safetensors"), metadata={"format": "pt"})
    m.config.save_pretrained(d)
    config = json.load(open(os.path.join(d, "config.json")))
    config["architectures"] = [type(m).__name__]
    json.dump(config, open(os.path.join(d, "config.json"), "w"), indent=2)
    return d

def write_json(path, value):
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as z:
        z.write(json.dumps(value).encode())

def values(m, s):  # the value at a token is that of the state before it: the critic's output at the token before
    v = m(input_ids=torch.tensor([s["tokens"]])).logits[0, :, 0]
    return torch.where(torch.tensor(s["mask"]), torch.cat([torch.zeros(1), v[:-1]]), 0.0)

def loss(m, seqs):  # the mean over trained tokens of (value − w)² / 2
    trained = sum(sum(s["mask"]) for s in seqs)
    return sum(((values(m, s) - torch.tensor(s["w_logprob"])) ** 2 * torch.tensor(s["mask"])).sum() for s in seqs) / 2 / trained

def reference(m, seqs):
    m.zero_grad()
    l = loss(m, seqs)
    l.backward()
    return dict(loss=l.item(), values=[values(m, s).tolist() for s in seqs]), {n: p.grad.clone().contiguous() for n, p in m.named_parameters() if p.grad is not None}

class LoRA(torch.nn.Module):  # Hu et al. 2021: W·x + (alpha/rank)·B·A·x
    def __init__(self, base, rank, alpha, g):
        super().__init__()
        self.base = base
        self.scale = alpha / rank
        self.lora_A = torch.nn.Parameter((torch.randn(rank, base.in_features, generator=g) / base.in_features ** 0.5).half().float())
        self.lora_B = torch.nn.Parameter((0.3 * torch.randn(base.out_features, rank, generator=g)).half().float())
    def forward(self, x):
        return self.base(x) + self.scale * (x @ self.lora_A.T @ self.lora_B.T)

targets = ("q_proj", "v_proj", "down_proj")

def add_lora(m, rank, alpha):
    g = torch.Generator().manual_seed(3)
    for name, p in m.named_parameters():
        p.requires_grad_(name.startswith("score."))
    for layer in m.model.layers:
        for holder in (layer.self_attn, layer.mlp):
            for n in targets:
                if hasattr(holder, n):
                    setattr(holder, n, LoRA(getattr(holder, n), rank, alpha, g))
    with torch.no_grad():
        for p in m.score.parameters():
            p.add_((0.1 * torch.randn(p.shape, generator=g)))
            p.copy_(p.half().float())

def peft_name(n):
    return "base_model.model." + (n if n.startswith("score.") else n.replace(".base.", ".") + ".weight")

def critic():
    seqs = json.load(gzip.open(os.path.join(out, "sequences.json.gz")))
    m = LlamaForTokenClassification(LlamaConfig(**base, num_labels=1, classifier_dropout=0.0, pad_token_id=None)).eval()
    initialise(m, 13)
    d = write_model("critic", m)
    ref, tensors = reference(m, seqs)
    write_json(os.path.join(d, "reference.json.gz"), ref)
    save_file(tensors, os.path.join(d, "gradients.safetensors"))
    add_lora(m, 4, 8)
    ref, tensors = reference(m, seqs)
    write_json(os.path.join(d, "reference_lora.json.gz"), ref)
    save_file({(n if n.startswith("score.") else n + ".weight"): t for n, t in tensors.items()}, os.path.join(d, "gradients_lora.safetensors"))
    save_file({peft_name(n): p.detach().half().contiguous() for n, p in m.named_parameters() if p.requires_grad}, os.path.join(d, "adapter_model.safetensors"), metadata={"format": "pt"})
    json.dump(dict(peft_type="LORA", r=4, lora_alpha=8, target_modules=list(targets), bias="none", task_type="TOKEN_CLS", base_model_name_or_path="",
                   fan_in_fan_out=False, use_rslora=False, modules_to_save=["classifier", "score"]), open(os.path.join(d, "adapter_config.json"), "w"))

def reward_model():
    pad = 5
    m = Qwen2ForSequenceClassification(Qwen2Config(**base, num_labels=3, pad_token_id=pad, tie_word_embeddings=True)).eval()
    initialise(m, 17)
    d = write_model("reward", m)
    g = torch.Generator().manual_seed(9)
    r = lambda n: torch.randint(6, 64, (n,), generator=g).tolist()
    shared = r(8)
    sequences = [shared + r(5), shared + r(9), shared, r(1), r(20), r(4) + [pad] + r(3), r(6) + [pad], r(3) + [pad, pad, pad], [pad, pad]]
    with torch.no_grad():
        scores = [m(input_ids=torch.tensor([s])).logits[0].tolist() for s in sequences]
        m.config.pad_token_id = None  # then the last token counts, whatever it is
        unpadded = [m(input_ids=torch.tensor([s])).logits[0].tolist() for s in sequences]
    write_json(os.path.join(d, "reference.json.gz"), dict(sequences=sequences, scores=scores, scores_without_pad=unpadded))

critic()
reward_model()
