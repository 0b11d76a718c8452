"""Calls what the examples do not call, with the official client."""

import hashlib
import io
import time

import openai

client = openai.OpenAI(max_retries=0)
rows = b'{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"2"}]}\n' * 4
file = client.files.create(file=("rows.jsonl", io.BytesIO(rows)), purpose="fine-tune", expires_after={"anchor": "created_at", "seconds": 3600})
assert file.bytes == len(rows) and file.expires_at == file.created_at + 3600, file
assert client.files.retrieve(file.id) == file and client.files.content(file.id).read() == rows
assert [f.id for f in client.files.list(purpose="fine-tune", limit=1)][0] == file.id  # and it follows pages
model = client.fine_tuning.jobs.list(limit=1).data[0].model
jobs = [client.fine_tuning.jobs.create(model=model, training_file=file.id, metadata={"n": str(n)}) for n in range(3)]
assert [j.id for j in client.fine_tuning.jobs.list(metadata={"n": "1"})] == [jobs[1].id]
assert client.fine_tuning.jobs.cancel(jobs[2].id).status == "cancelled"
assert len([e for e in client.fine_tuning.jobs.list_events(jobs[2].id, limit=1)]) == 3
for job in jobs[:2]:
    client.fine_tuning.jobs.cancel(job.id)
done = [j for j in client.fine_tuning.jobs.list(limit=2) if j.status == "succeeded"]
saved = client.fine_tuning.jobs.checkpoints.list(done[0].id, limit=1).data[0]
assert saved.fine_tuned_model_checkpoint == f"{done[0].fine_tuned_model}:ckpt-step-{saved.step_number}" and saved.metrics.step, saved
assert client.files.content(done[0].result_files[0]).text.startswith("step,")
assert done[0].fine_tuned_model in [m.id for m in client.models.list()]
for name in (done[0].fine_tuned_model, saved.fine_tuned_model_checkpoint):
    reply = client.chat.completions.create(model=name, messages=[{"role": "user", "content": "1"}], max_tokens=4, temperature=0)
    assert reply.model == name and reply.usage.completion_tokens, reply
check = {"type": "string_check", "name": "c", "operation": "eq", "input": "{{ sample.output_text }}", "reference": "{{ item.a }}"}
graders = client.fine_tuning.alpha.graders
assert graders.validate(grader=check).grader.name == "c"
assert graders.run(grader=check, model_sample="x", item={"a": "x"}).reward == 1
failed = graders.run(grader=check, model_sample="x", item={})
assert failed.reward is None and failed.metadata.errors.invalid_variable_error, failed
judge = {
    "type": "score_model",
    "name": "judge",
    "model": model,
    "input": [{"role": "user", "content": "{{ sample.output_text }}"}],
    "sampling_params": {"max_completions_tokens": 4, "seed": 1, "temperature": 1, "top_p": 0.9},
}
both = {"type": "multi", "name": "m", "calculate_output": "c + j", "graders": {"c": check, "j": judge}}
for grader in (judge, {**judge, "model": done[0].fine_tuned_model}, both):
    assert graders.validate(grader=grader).grader.name == grader["name"]
    scored = graders.run(grader=grader, model_sample="x", item={"a": "x"})
    assert scored.metadata.token_usage > 4 and scored.reward is None, scored  # random weights write no JSON
    assert scored.metadata.errors.api_model_grader_parse_error, scored
    assert scored.metadata.sampled_model_name == grader.get("model"), scored
long = {"hyperparameters": {"n_epochs": 1000, "batch_size": 1}}
slow = client.fine_tuning.jobs.create(model=model, training_file=file.id, method={"type": "supervised", "supervised": long})


def until(*states):
    while True:
        job = client.fine_tuning.jobs.retrieve(slow.id)
        if job.status in states:
            return job
        assert job.status not in ("failed", "succeeded"), job
        time.sleep(0.05)


until("running")
assert client.fine_tuning.jobs.pause(slow.id).status in ("running", "paused")
until("paused")
assert client.fine_tuning.jobs.resume(slow.id).status in ("queued", "running")
until("running")
assert client.fine_tuning.jobs.cancel(slow.id).status == "cancelled"
order = {"model": model, "training_file": file.id, "extra_headers": {"Idempotency-Key": "k"}}
assert client.fine_tuning.jobs.create(**order).id == client.fine_tuning.jobs.create(**order).id
client.fine_tuning.jobs.cancel(client.fine_tuning.jobs.create(**order).id)
assert client.models.delete(saved.fine_tuned_model_checkpoint).deleted
assert saved.fine_tuned_model_checkpoint not in [m.id for m in client.models.list()]
assert client.models.delete(done[1].fine_tuned_model).deleted
assert not [m.id for m in client.models.list() if m.id.startswith(done[1].fine_tuned_model)]
for call in (
    lambda: client.fine_tuning.jobs.create(model="gpt-4o", training_file=file.id),
    lambda: client.fine_tuning.jobs.create(model=model, training_file="file-none"),
    lambda: graders.validate(grader={**check, "operation": "is"}),
    lambda: client.fine_tuning.jobs.resume(jobs[2].id),
):
    try:
        call()
    except openai.BadRequestError as problem:
        assert problem.body["message"], problem
    else:
        raise SystemExit("a bad request is taken")
upload = client.uploads.upload_file_chunked(
    file=rows, filename="parts.jsonl", bytes=len(rows), mime_type="text/jsonl", purpose="fine-tune", part_size=100, md5=hashlib.md5(rows).hexdigest()
)
assert upload.status == "completed" and upload.file.filename == "parts.jsonl", upload
assert client.files.content(upload.file.id).read() == rows
assert client.files.delete(upload.file.id).deleted
left = client.uploads.create(bytes=9, filename="x", mime_type="text/plain", purpose="fine-tune")
assert client.uploads.parts.create(left.id, data=b"123").upload_id == left.id
assert client.uploads.cancel(left.id).status == "cancelled"
assert client.files.delete(file.id).deleted
