"""python -m trinity_worker.ray_group: the entrypoint of a Ray job. It runs a command on each node of a placement group.

What to run comes in a file of the job's working directory, which Ray copies to all nodes and keeps. Secrets stand
neither there nor in the job's runtime_env and entrypoint, which Ray's dashboard, API and logs show: the launcher has put
them into Ray's store of packages under a random name, and this process takes them out.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import ray
from ray.experimental.internal_kv import _internal_kv_del, _internal_kv_get
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

FILE = "trinity_group.json"
SECRETS = "TRINITY_RAY_SECRETS"
VISIBLE = "CUDA_VISIBLE_DEVICES"
ENDING = 25.0  # seconds that commands have to end; the launcher makes Ray wait longer


def take_secrets() -> dict[str, str]:
    """Returns the secrets, which exist in this process alone from now on."""
    name = os.environ[SECRETS]
    data = _internal_kv_get(name)
    if data is None:
        sys.exit("the group's secrets are not in Ray's store: another process has taken them")
    _internal_kv_del(name)
    secrets: dict[str, str] = json.loads(data)
    return secrets


class Node:
    """An actor that runs the command on its node. Should it be killed, the driver's lease ends the command."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.gpus = env.get(VISIBLE, os.environ.get(VISIBLE, ""))
        own = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}  # Ray's is often 1
        self.process = subprocess.Popen(command, env={**own, **env}, stdin=subprocess.DEVNULL)

    def place(self) -> tuple[str, str]:
        """Returns the id of the node and the GPUs that the command sees."""
        return ray.get_runtime_context().get_node_id(), self.gpus

    def ended(self) -> int | None:
        return self.process.poll()

    def stop(self) -> None:
        self.process.terminate()


class Group:
    """The nodes of a group. told is set when the job is asked to end."""

    def __init__(self, spec: dict[str, Any], told: threading.Event) -> None:
        self.spec, self.told = spec, told
        self.nodes: list[Any] = []
        self.end = time.monotonic() + spec["patience"]

    def late(self, what: str) -> None:
        """Ends this process when the patience is over: the driver, which has the same, may have been killed."""
        if time.monotonic() > self.end:
            sys.exit(f"{self.spec['name']}: after {self.spec['patience']:.0f} s, {what}")

    def ask(self, method: str, starting: bool = False) -> list[Any] | None:
        """Returns what all nodes answer, or None if the job must end before that."""
        calls = [getattr(node, method).remote() for node in self.nodes]
        while missing := ray.wait(calls, num_returns=len(calls), timeout=1)[1]:
            if self.told.is_set():
                return None
            if starting:
                self.late(f"{len(missing)} of {len(calls)} nodes have not started their actors")
        return list(ray.get(calls))

    def start(self) -> bool:
        """Starts the nodes. Returns False if the job must end before that."""
        spec = self.spec
        for i, (options, env) in enumerate(self.beside() if spec["beside"] else self.own()):
            actor = ray.remote(max_restarts=0, name=f"{spec['name']}-{i}", **options)(Node)
            self.nodes.append(actor.remote(spec["command"], {**spec["env"], **spec["secret"], **env}))
        return bool(self.nodes)

    def own(self) -> list[tuple[dict[str, Any], dict[str, str]]]:
        """Returns the options of actors that have resources of their own, each on another node."""
        bundle = {name: amount for name, amount in self.spec["resources"].items() if amount}
        count, said = self.spec["nodes"], False
        group = placement_group([bundle] * count, strategy="STRICT_SPREAD")
        while not group.wait(2):
            if self.told.is_set():
                return []
            have = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            self.late(f"{count} nodes with {bundle} on each are not free; the cluster's nodes have {have}")
            if not said:
                said = True
                print(
                    f"waiting for {count} nodes with {bundle} free on each; the cluster's nodes have {have}", flush=True
                )
        options = {"num_cpus": bundle.pop("CPU", 0), "num_gpus": bundle.pop("GPU", 0), "resources": bundle}
        return [
            ({**options, "scheduling_strategy": PlacementGroupSchedulingStrategy(group, i)}, {}) for i in range(count)
        ]

    def beside(self) -> list[tuple[dict[str, Any], dict[str, str]]]:
        """Returns the options of actors that share nodes and GPUs of another group: its GPUs go round."""
        size, parts = self.spec["gpus"], []
        try:
            self.nodes = [ray.get_actor(f"{self.spec['beside']}-{i}") for i in range(self.spec["beside_nodes"])]
            places = self.ask("place", starting=True)
        except (ValueError, ray.exceptions.RayActorError):
            sys.exit(f"{self.spec['name']}: {self.spec['beside']}, whose GPUs it shares, is gone")
        self.nodes = []
        for node, gpus in places or []:
            names = gpus.split(",")
            parts += [(node, ",".join(names[at : at + size])) for at in range(0, len(names) - size + 1, size)]
        if places is None:
            return []
        if not parts:
            sys.exit(f"no node of {self.spec['beside']} has {size} GPUs")
        first = self.spec["slot"] * self.spec["nodes"]
        mine = [parts[(first + i) % len(parts)] for i in range(self.spec["nodes"])]
        return [
            ({"num_cpus": 0, "scheduling_strategy": NodeAffinitySchedulingStrategy(node, False)}, {VISIBLE: gpus})
            for node, gpus in mine
        ]

    def run(self) -> int:
        """Returns when all commands have ended: the exit status of this process."""
        if not self.start() or self.ask("place", starting=True) is None:
            return 0
        while (codes := self.ask("ended")) is not None:
            if None not in codes:
                return max(abs(code) for code in codes) and 1
            if self.told.wait(1):
                break
        self.told.clear()
        self.ask("stop")
        for _ in range(int(ENDING)):
            if None not in (self.ask("ended") or []):
                break
            self.told.wait(1)
        return 0


def drive(spec: dict[str, Any], dashboard: str) -> int:
    """Runs a run's driver, which starts the jobs of its groups itself. Returns its exit status.

    Ray sends the signal that ends the job to the driver too.
    """
    env = {**os.environ, **spec["env"], **spec["secret"], "RAY_ADDRESS": "http://" + dashboard}
    program = spec["command"][0]
    if shutil.which(program, path=env.get("PATH")) is None:
        sys.exit(
            f"{program} is not on the head node: put it on the PATH of its Ray, or set cluster.launcher_args.program to its path there"
        )
    return subprocess.Popen(spec["command"], env=env, stdin=subprocess.DEVNULL).wait()


def main() -> None:
    with open(FILE) as f:
        spec: dict[str, Any] = json.load(f)
    dashboard = ray.init(namespace=spec["run"], logging_level="warning").dashboard_url
    told = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):  # after ray.init, which has a handler too
        signal.signal(sign, lambda *_: told.set())
    spec["secret"] = take_secrets()
    sys.exit(drive(spec, dashboard) if spec["driver"] else Group(spec, told).run())


if __name__ == "__main__":
    main()
