"""What the peers that show curves share: the runs that our side has written, a server, and how its curves are timed."""
import gzip
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import time

from turns import serve, spec

given = spec["curves"]
HERE = pathlib.Path(spec["dir"])  # of this peer alone
HERE.mkdir(parents=True, exist_ok=True)
TIMEOUT = 600


def runs():
    """Each run's name and its records: dicts with step, time and metrics."""
    for file in sorted(pathlib.Path(given["dir"]).rglob("metrics.jsonl")):
        with open(file) as lines:
            yield file.parent.parent.name, [json.loads(line) for line in lines]


class Server:
    """A program that serves curves at a port."""

    def __init__(self, command, **variables):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.log = open(HERE / "log", "w+")
        command = [str(word).replace("PORT", str(self.port)) for word in command]
        self.begin, self.sent = time.perf_counter(), 0
        self.program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, "PYTHONUNBUFFERED": "1", **variables})

    def wait(self, says=""):
        """Returns when the server takes connections, and has printed a text."""
        while says not in (HERE / "log").read_text():
            self.alive()
            time.sleep(0.005)
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                self.alive()
                time.sleep(0.005)

    def alive(self):
        if self.program.poll() is not None or time.perf_counter() - self.begin > TIMEOUT:
            self.log.seek(0)
            raise RuntimeError(f"the server has not answered: {self.log.read()[-2000:]}")

    def ask(self, method, path, body=None, kind="application/json"):
        """Returns the answer's JSON as bytes. The time of its last byte is kept, before it is unpacked."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        headers = {"Accept-Encoding": "gzip, deflate, br"}
        if body is not None:
            headers["Content-Type"] = kind
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        self.last = time.perf_counter()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {data[:500]}")
        self.sent += len(data)
        encoding = answer.getheader("Content-Encoding")
        if encoding == "br":
            import brotli

            return brotli.decompress(data)
        return gzip.decompress(data) if encoding == "gzip" else data

    def family(self):
        """The program and those that it has started, with the peak memory of each in bytes."""
        parents, peaks = {}, {}
        for path in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                status = dict(line.split(":", 1) for line in path.read_text().splitlines())
            except OSError:
                continue  # it has ended
            parents[int(status["Pid"])] = int(status["PPid"])
            peaks[int(status["Pid"])] = int(status.get("VmHWM", "0 kB").split()[0]) << 10
        family = {self.program.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        return {pid: peaks.get(pid, 0) for pid in family}

    def stop(self):
        """Asks the program to end, and ends what is left."""
        family = self.family()
        self.program.terminate()
        try:
            self.program.wait(10)
        except subprocess.TimeoutExpired:
            pass
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.program.wait()
        self.log.close()


def measure(start, curves, says=""):
    """serves runs of a server that start returns and that prints a text once it is ready; curves asks it for the curves as its page does,
    and checks that they are whole."""
    def run(number):
        server = start()
        try:
            server.wait(says)
            curves(server)
            value, sent = server.last - server.begin, server.sent
            begin = time.perf_counter()
            curves(server)
            return {"value": value, "again_s": server.last - begin, "sent": sent, "peak_rss": sum(server.family().values())}
        finally:
            server.stop()

    serve(run)
