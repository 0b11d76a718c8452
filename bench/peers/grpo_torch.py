"""A GRPO step without TRL: transformers' generate for all rows, padded, then PyTorch's policy gradient in micro-batches."""
import json
import time

from common import load, serve, spec, torch
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(spec["peer_model"], padding_side="left")
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
model = load()
model.generation_config.pad_token_id = tokenizer.pad_token_id
adamw = torch.optim.AdamW(model.parameters(), lr=1e-6)
with open(spec["questions"]) as f:
    questions = [json.loads(line)["question"] for line in f]
group, count, new, micro = spec["group"], spec["batch"], spec["new"], spec["peer_micro"]


def prompts(number):
    tasks = count // group
    chosen = [questions[(number * tasks + i) % len(questions)] for i in range(tasks) for _ in range(group)]
    chats = [[{"role": "system", "content": spec["system"]}, {"role": "user", "content": q}] for q in chosen]
    return tokenizer.apply_chat_template(chats, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True)


def logprobs(ids, mask):
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=new + 1).logits[:, :-1]
    return torch.log_softmax(logits, -1).gather(-1, ids[:, -new:, None])[..., 0]


def run(number):
    start = time.perf_counter()
    batch = prompts(number)
    model.eval()
    with torch.inference_mode():
        ids = model.generate(**batch, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=new, min_new_tokens=new, disable_compile=True)
    rollout = time.perf_counter() - start
    ids = ids.clone()
    mask = torch.cat([batch["attention_mask"], torch.ones(count, new, dtype=torch.long)], 1)
    rewards = torch.tensor([len(set(t)) / 1000 for t in tokenizer.batch_decode(ids[:, -new:])]).view(-1, group)
    advantages = ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    model.train()
    for at in range(0, count, micro):
        part = slice(at, at + micro)
        now = logprobs(ids[part], mask[part])
        ratio = torch.exp(now - now.detach())
        (-(ratio * advantages[part]).mean() * micro / count).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adamw.step()
    adamw.zero_grad(set_to_none=True)
    return {"value": time.perf_counter() - start, "rollout": rollout}


serve(run)
