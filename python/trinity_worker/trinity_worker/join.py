"""python -m trinity_worker.join: starts a program of a group, tells the driver where it answers, and ends it with the driver.

What to start comes by environment: TRINITY_JOIN is a JSON object, TRINITY_JOIN_TOKEN the driver's token. Only the
standard library is used, so that the environment of any server will do.
"""

import http.client
import importlib.util
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from . import PROTOCOL

# Characters of output that wait for the driver, of 12 bytes each in JSON; of more, the oldest are left out and counted.
MOST = 1 << 17


class Refused(Exception):
    """The driver does not want this member."""


class Ended(BaseException):
    """A signal ends this process."""


class Signals:
    """The signals that end this process. They interrupt whatever it waits for, unless they are held back."""

    def __init__(self) -> None:
        self.held = self.told = False
        for sign in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(sign, self._come)

    def _come(self, *_: Any) -> None:
        first, self.told = not self.told, True
        if first and not self.held:
            raise Ended

    def hold(self) -> None:
        self.held = True

    def let(self) -> None:
        self.held = False
        if self.told:
            raise Ended


class Driver:
    """The driver's door. A call that fails is repeated until the lease has run out."""

    def __init__(self, url: str, token: str, lease: float) -> None:
        self.url, self.token, self.lease = url, token, lease
        self.heard = time.monotonic()
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        request.add_header("Authorization", "Bearer " + self.token)
        request.add_header("Content-Type", "application/json")
        while True:
            try:
                with self.opener.open(request, timeout=self.lease / 2) as reply:
                    answer: dict[str, Any] = json.load(reply)
                    self.heard = time.monotonic()
                    return answer
            except urllib.error.HTTPError as e:
                if e.code < 500 and e.code not in (408, 429):  # the driver had no time, or no room
                    raise Refused(
                        f"the driver answered {e.code}: {e.read().decode(errors='replace').strip()}"
                    ) from None
                error: Exception = e
            except (OSError, ValueError, http.client.HTTPException) as e:
                error = e
            if time.monotonic() - self.heard > self.lease:
                raise Refused(f"the driver at {self.url} has been silent for {self.lease:g} s ({error})") from None
            time.sleep(min(1.0, self.lease / 20))


class Ports:
    """Free ports, which no other process gets until they are released."""

    def __init__(self, host: str, count: int) -> None:
        self.held = [socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) for _ in range(count)]
        for s in self.held:
            s.bind((host, 0))
        self.numbers: list[int] = [s.getsockname()[1] for s in self.held]

    def release(self) -> None:
        for s in self.held:
            s.close()


def own_host(driver: str) -> str:
    """Returns the address of this machine by which it reaches the driver: others reach it by the same."""
    host, port = driver.removeprefix("http://").rstrip("/").rsplit(":", 1)
    family, kind, proto, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, proto) as s:
        s.connect(address)  # sends nothing
        own: str = s.getsockname()[0]
        return own


# What ends a program whose watcher has been killed: the watcher's end closes the input of this script.
GUARD = """read -r program || exit
read -r ended && exit
kill -TERM -"$program"
sleep 10
kill -KILL -"$program"
"""


class Program:
    """The program, in a process group of its own, with the output that the driver has not got yet."""

    def __init__(self, command: list[str], env: dict[str, str], wake: threading.Event) -> None:
        self.unsent, self.left_out, self.lock, self.wake = "", 0, threading.Lock(), wake
        self.guard = subprocess.Popen(
            ["sh", "-c", GUARD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        assert self.guard.stdin is not None
        self.guard.stdin.write(f"{self.process.pid}\n")
        self.guard.stdin.flush()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        threading.Thread(target=self._wait, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.lock:
                self.unsent += line
                self.left_out += max(0, len(self.unsent) - MOST)
                self.unsent = self.unsent[-MOST:]
            sys.stderr.write(line)
            sys.stderr.flush()

    def _wait(self) -> None:
        self.process.wait()
        self.wake.set()

    def ended(self) -> int | None:
        return self.process.poll()

    def output(self) -> str:
        """Returns what the program has written since the last call."""
        if self.ended() is not None:
            self.reader.join(2)  # a child of the program may hold the pipe open
        with self.lock:
            text, self.unsent, left_out, self.left_out = self.unsent, "", self.left_out, 0
        return f"… {left_out} characters left out …\n{text}" if left_out else text

    def stop(self) -> None:
        """Ends the program and all processes of its group."""
        for sign, patience in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
            self._signal(sign)
            try:
                self.process.wait(patience)
                break
            except subprocess.TimeoutExpired:
                continue
        self._signal(signal.SIGKILL)
        self.guard.communicate("ended\n")

    def _signal(self, sign: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, sign)
        except ProcessLookupError:
            pass


def answers(url: str) -> bool:
    """Reports whether a server answers, whatever it says: one that asks for a key answers too."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as e:
        return e.code < 500
    except (OSError, http.client.HTTPException):  # the latter of something else at this port
        return False


def cores() -> int:
    """Returns how many cores of this machine this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fill(command: list[str], fields: dict[str, str]) -> list[str]:
    filled = []
    for word in command:
        for name, value in fields.items():
            word = word.replace("{" + name + "}", value)
        filled.append(word)
    return filled


def run(driver: Driver, spec: dict[str, Any], env: dict[str, str], signals: Signals) -> int:
    """Starts the program when all members are there, and watches it. Returns the exit status of this process."""
    group, host = f"/v1/groups/{spec['group']}", own_host(driver.url)
    ports = Ports(host, 2)
    own, master = ports.numbers
    me = {
        "id": secrets.token_hex(8),
        "host": host,
        "machine": socket.gethostname(),
        "port": master,
        "protocol": PROTOCOL,
    }
    while "master" not in (place := driver.call(group + "/members", me)):
        time.sleep(0.2)
    said: dict[str, Any] = {"id": me["id"]}
    missing = [m for m in spec.get("modules") or [] if importlib.util.find_spec(m) is None]
    if missing:
        driver.call(group + "/alive", {**said, "missing": missing})
        return 1
    shown = f"[{host}]" if ":" in host else host
    fields = {
        "host": host,
        "port": str(own),
        "rank": str(place["rank"]),
        "nodes": str(place["nodes"]),
        "master": place["master"],
        "master_port": str(place["master_port"]),
    }
    ports.release()
    wake, program = threading.Event(), None
    waits = place["rank"] == 0
    try:
        signals.hold()
        try:
            program = Program(fill(spec["command"], fields), env, wake)
        except OSError as e:
            driver.call(group + "/alive", {**said, "ended": 127, "output": f"{e}\n"})
            return 1
        signals.let()
        while True:
            if waits and answers(f"http://{shown}:{own}{spec['answers']}"):
                waits, said["address"] = False, f"{shown}:{own}"
            code = program.ended()
            if code is not None:
                said["ended"] = code
            stop = driver.call(group + "/alive", {**said, "output": program.output()}).get("stop")
            if stop or code is not None:
                return 0 if program.ended() is None else 1
            wake.wait(0.3 if waits else driver.lease / 6)
    finally:
        signals.hold()
        if program is not None:
            program.stop()


def main() -> None:
    env = dict(os.environ)
    spec, token = json.loads(env.pop("TRINITY_JOIN")), env.pop("TRINITY_JOIN_TOKEN")
    # The program finds this package, wherever it starts its own processes.
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    env["PYTHONPATH"] = os.pathsep.join(p for p in (here, env.get("PYTHONPATH")) if p)
    if ranks := spec.get("ranks"):
        env.setdefault("OMP_NUM_THREADS", str(max(1, cores() // ranks)))
    signals = Signals()
    try:
        sys.exit(run(Driver(spec["driver"], token, float(spec["lease"])), spec, env, signals))
    except Ended:
        pass
    except (Refused, OSError) as e:
        sys.exit(f"trinity_worker.join: {e}")


if __name__ == "__main__":
    main()
