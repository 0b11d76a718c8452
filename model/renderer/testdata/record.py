"""Records tokens and masks of chats from transformers' apply_chat_template.

tokenizer/ holds a small byte-level BPE tokenizer trained here on the words below; chats.json.gz holds, for every template
named in TEMPLATES and every chat, the ids with and without the opening of a reply, and the mask of what the assistant wrote:
transformers' own where the template has generation blocks, else by counting the tokens of prefixes (null where no turn is a
continuation of its own prompt). For each reply that another one follows it holds the ids of the prompt and those of the next reply's.
"""
import gzip
import json
import os

from jinja2 import TemplateError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATES = ["qwen25", "qwen3", "llama31", "smollm2", "mistral_tools", "mistral_tekken", "qwen3_coder", "chatml_generation", "llama2_like", "smollm3_like", "gemma3_like"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<s>", "</s>"]
STOP = ["<|im_end|>", "<|eot_id|>", "</s>"]

TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}]
CALL = [{"id": "abcdef123", "type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 2}}}]
AGAIN = [{"id": "call00001", "type": "function", "function": {"name": "add", "arguments": {"a": 3, "b": 3}}}]
CHATS = [
    {"messages": [{"role": "user", "content": "What is 1 + 2?"}, {"role": "assistant", "content": "It is 3."}]},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello\n"},
                  {"role": "assistant", "content": "Hello! 👋"}, {"role": "user", "content": "what now?"},
                  {"role": "assistant", "content": "👋🏽 nothing, äöü ß 漢字"}]},
    {"messages": [{"role": "user", "content": "add 1 and 2"}, {"role": "assistant", "content": "", "tool_calls": CALL},
                  {"role": "tool", "content": "3", "tool_call_id": "abcdef123"},
                  {"role": "assistant", "content": "It is 3."}], "tools": TOOLS},
    {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "add 1 and 2, then 3"},
                  {"role": "assistant", "content": "", "tool_calls": CALL}, {"role": "tool", "content": "3", "tool_call_id": "abcdef123"},
                  {"role": "assistant", "content": "", "tool_calls": AGAIN}, {"role": "tool", "content": "6", "tool_call_id": "call00001"},
                  {"role": "assistant", "content": "It is 6."}, {"role": "user", "content": "thanks"},
                  {"role": "assistant", "content": "nothing"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "think and add"},
                  {"role": "assistant", "content": "", "reasoning_content": "add 1 and 2", "tool_calls": CALL},
                  {"role": "tool", "content": "3", "tool_call_id": "abcdef123"},
                  {"role": "assistant", "content": "It is 3.", "reasoning_content": "three"}], "tools": TOOLS},
    {"messages": [{"role": "user", "content": "think"},
                  {"role": "assistant", "content": "<think>\nhmm\n</think>\n\nYes.", },
                  {"role": "user", "content": "again"},
                  {"role": "assistant", "content": "No.", "reasoning_content": "well"}]},
    {"messages": [{"role": "user", "content": "think not"}, {"role": "assistant", "content": "No."}], "kwargs": {"enable_thinking": False}},
    {"messages": [{"role": "user", "content": "only a question with <|im_end|> inside"}]},
]
WORDS = """What is the sum of one and two? It is three. Be brief, and do not think too long. Hello, hello! You are a helpful
assistant system user tool tools function name arguments type object properties integer description required. Cutting Knowledge
Date: December 2023. Today Date: 26 Jul 2024. <tool_call> {"name": "add", "arguments": {"a": 1, "b": 2}} </tool_call> [INST] [/INST]
<think> </think> think again, think not. nothing now"""


def build():
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=520, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    t.train_from_iterator([WORDS], trainer)
    os.makedirs(os.path.join(HERE, "tokenizer"), exist_ok=True)
    t.save(os.path.join(HERE, "tokenizer", "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    with open(os.path.join(HERE, "tokenizer", "tokenizer_config.json"), "w") as f:
        json.dump(config, f)
    return PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", pad_token="<|endoftext|>")


def ids(tok, template, messages, chat, generate):
    return tok.apply_chat_template(messages, tools=chat.get("tools"), chat_template=template, add_generation_prompt=generate,
                                   date_string="21 Nov 2026", return_dict=False, **chat.get("kwargs", {}))


def turns(tok, template, chat):
    messages = chat["messages"]
    replies = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    return [{"reply": i, "prompt": ids(tok, template, messages[:i], chat, True), "next": ids(tok, template, messages[:j], chat, True)}
            for i, j in zip(replies, replies[1:])]


def prefix_mask(tok, template, chat):
    messages, whole = chat["messages"], ids(tok, template, chat["messages"], chat, False)
    mask = [0] * len(whole)
    stop = tok.convert_tokens_to_ids(STOP)
    for i, m in enumerate(messages):
        if m["role"] != "assistant":
            continue
        before, with_it = ids(tok, template, messages[:i], chat, True), ids(tok, template, messages[:i + 1], chat, False)
        if with_it[:len(before)] != before or whole[:len(with_it)] != with_it:
            continue
        end = max([j + 1 for j in range(len(before), len(with_it)) if whole[j] in stop], default=len(with_it))
        mask[len(before):end] = [1] * (end - len(before))
    return mask if any(mask) else None


tok, out = build(), []
for name in TEMPLATES:
    with open(os.path.join(HERE, "..", "internal", "jinja", "testdata", "templates", name + ".jinja")) as f:
        template = f.read()
    for chat in CHATS:
        record = {"template": name, **chat}
        try:
            record["prompt"] = ids(tok, template, chat["messages"], chat, True)
            record["turns"] = turns(tok, template, chat)
            record["whole"] = ids(tok, template, chat["messages"], chat, False)
            if "generation %}" in template:
                d = tok.apply_chat_template(chat["messages"], tools=chat.get("tools"), chat_template=template, return_dict=True,
                                            return_assistant_tokens_mask=True, date_string="21 Nov 2026", **chat.get("kwargs", {}))
                assert d["input_ids"] == record["whole"]
                mask = d["assistant_masks"]
                record["mask"] = mask if any(mask) else None
            else:
                record["mask"] = prefix_mask(tok, template, chat)
        except TemplateError:
            continue  # the template refuses tools
        except Exception as e:
            record["error"] = f"{type(e).__name__}: {e}"
        out.append(record)
with gzip.GzipFile(os.path.join(HERE, "chats.json.gz"), "wb", mtime=0) as f:
    f.write(json.dumps(out, ensure_ascii=False).encode())
for r in out:
    print(r["template"], r.get("error") or (len(r["prompt"]), len(r["whole"]), r["mask"] and sum(r["mask"])))
