"""MLflow's page of charts: the runs of an experiment, then a request for each metric, which brings 320 points of each run."""
import datetime
import json
import sqlite3
import sys
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from curves import HERE, Server, given, measure, runs

POINTS = 320  # that the page asks for
API = "/ajax-api/2.0/mlflow/"


def start():
    return Server([sys.executable, "-m", "mlflow", "server", "--workers", "1", "--backend-store-uri", f"sqlite:///{HERE}/mlflow.db",
                   "--artifacts-destination", HERE / "artifacts", "--host", "127.0.0.1", "--port", "PORT"],
                  MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")


def fill():
    """The server makes experiment and runs; the points go into its tables, because the server would take minutes."""
    server = start()
    try:
        server.wait()
        experiment = json.loads(server.ask("POST", API + "experiments/create", json.dumps({"name": "studio"})))["experiment_id"]
        create = {"experiment_id": experiment, "start_time": 1}
        ids = {name: json.loads(server.ask("POST", API + "runs/create", json.dumps({**create, "run_name": name})))["run"]["info"]["run_id"]
               for name, _ in runs()}
    finally:
        server.stop()
    database = sqlite3.connect(HERE / "mlflow.db")
    for setting in ("synchronous = OFF", "cache_size = -500000"):
        database.execute("PRAGMA " + setting)
    for name, records in runs():
        rows = []
        for r in records:
            at = int(datetime.datetime.fromisoformat(r["time"]).timestamp() * 1000)
            rows += [(key, value, at, r["step"], False, ids[name]) for key, value in r["metrics"].items()]
        newest = {row[0]: row for row in rows}
        for table, these in (("metrics", rows), ("latest_metrics", newest.values())):
            database.executemany(f"INSERT INTO {table} (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, ?, ?)", these)
        database.commit()
    database.close()
    return experiment


def history(server, ids, name):
    query = [("run_ids", i) for i in ids] + [("metric_key", name), ("max_results", POINTS)]
    return server.ask("GET", API + "metrics/get-history-bulk-interval?" + urllib.parse.urlencode(query))


def curves(server):
    server.ask("POST", API + "experiments/search", json.dumps({"max_results": 100}))
    found = json.loads(server.ask("POST", API + "runs/search", json.dumps({"experiment_ids": [experiment], "max_results": 100})))["runs"]
    ids = [run["info"]["run_id"] for run in found]
    with ThreadPoolExecutor() as pool:
        for answer in pool.map(lambda name: history(server, ids, name), given["names"]):
            points = len(json.loads(answer)["metrics"])
            assert len(ids) == given["runs"] and points == len(ids) * min(POINTS, given["steps"]), (len(ids), points)


experiment = fill()
measure(start, curves)
