"""Trackio's page of metrics: the project, its runs, then the records of 64 runs at a time with all of their metrics."""
import json
import os
import sys

from curves import HERE, Server, given, measure, runs

os.environ["TRACKIO_DIR"] = str(HERE)

from trackio.sqlite_storage import SQLiteStorage

BATCH = 64  # runs that the page asks for at once
SHOW = "import sys, trackio; trackio.show(open_browser=False, block_thread=True, server_port=int(sys.argv[1]))"

for name, records in runs():
    SQLiteStorage.bulk_log("studio", name, [r["metrics"] for r in records], [r["step"] for r in records], [r["time"] for r in records],
                           config={}, run_id=name)


def start():
    return Server([sys.executable, "-c", SHOW, "PORT"])


def call(server, name, **body):
    return server.ask("POST", "/api/" + name, json.dumps(body))


def curves(server):
    call(server, "get_all_projects")
    found = json.loads(call(server, "get_runs_for_project", project="studio"))["data"]
    logs = []
    for i in range(0, len(found), BATCH):
        some = [{"run": run["name"], "run_id": run["id"]} for run in found[i:i + BATCH]]
        logs.append(call(server, "get_logs_batch", project="studio", runs=some, scalar_only=True))
    all_runs = [run for text in logs for run in json.loads(text)["data"]]
    assert len(all_runs) == given["runs"], len(all_runs)
    for run in all_runs:
        for name in given["names"]:
            points = sum(name in log for log in run["logs"])
            assert points == given["steps"], (name, points)


measure(start, curves, "launched at")
