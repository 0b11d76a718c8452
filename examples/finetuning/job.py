"""What the three examples share: a client, a file of rows, a job that is followed to its end, and a question."""

import io
import json
import os
import time

import openai

MODEL = os.environ.get("MODEL", "HuggingFaceTB/SmolLM2-135M-Instruct")
client = openai.OpenAI(
    base_url=os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1"),
    api_key=os.environ.get("OPENAI_API_KEY", "tml-local"),
)


def upload(name, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return client.files.create(file=(name, io.BytesIO(text.encode())), purpose="fine-tune").id


def train(rows, held_out, method, suffix):
    job = client.fine_tuning.jobs.create(
        model=MODEL,
        training_file=upload("train.jsonl", rows),
        validation_file=upload("held_out.jsonl", held_out),
        method=method,
        suffix=suffix,
        seed=0,
    )
    seen = set()
    while True:
        job = client.fine_tuning.jobs.retrieve(job.id)
        for event in reversed(client.fine_tuning.jobs.list_events(job.id, limit=100).data):
            if event.id not in seen:
                seen.add(event.id)
                print(event.message, flush=True)
        if job.status in ("succeeded", "failed", "cancelled"):
            break
        time.sleep(1)
    if job.status != "succeeded":
        raise SystemExit(f"the job is {job.status}")
    print(job.fine_tuned_model, flush=True)
    return job.fine_tuned_model


def ask(model, question, tokens):
    messages = [{"role": "user", "content": question}]
    reply = client.chat.completions.create(model=model, messages=messages, max_tokens=tokens, temperature=0)
    print(question, reply.choices[0].message.content, flush=True)
