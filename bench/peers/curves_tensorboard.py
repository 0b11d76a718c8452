"""TensorBoard's page of time series: a request for each tag, which brings all runs.

It loads the event files after it has begun to answer, so the page is asked again until the curves are whole."""
import datetime
import json
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from curves import HERE, Server, given, measure, runs
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

API = "/experiment/defaultExperimentId/data/plugin/timeseries/"
for name, records in runs():
    writer = EventFileWriter(str(HERE / "logs" / name))
    for r in records:
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=v) for tag, v in r["metrics"].items()]
        at = datetime.datetime.fromisoformat(r["time"]).timestamp()
        writer.add_event(event_pb2.Event(wall_time=at, step=r["step"], summary=summary_pb2.Summary(value=values)))
    writer.close()


def start():
    return Server([sys.executable, "-m", "tensorboard.main", "--logdir", HERE / "logs", "--host", "127.0.0.1", "--port", "PORT"])


def series(server, tag):
    body = urllib.parse.urlencode({"requests": json.dumps([{"plugin": "scalars", "tag": tag}])})
    return server.ask("POST", API + "timeSeries", body, "application/x-www-form-urlencoded")


def curves(server):
    while True:
        server.sent = 0
        tags = json.loads(server.ask("GET", API + "tags"))["scalars"]["runTagInfo"]
        if sum(set(given["names"]) <= set(have) for have in tags.values()) == given["runs"]:
            with ThreadPoolExecutor() as pool:
                answers = [json.loads(a)[0]["runToSeries"] for a in pool.map(lambda tag: series(server, tag), given["names"])]
            if all(len(a) == given["runs"] and all(len(points) == given["steps"] for points in a.values()) for a in answers):
                return
        server.alive()
        time.sleep(0.1)


measure(start, curves)
