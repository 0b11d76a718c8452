"""HTTP on rank 0. One request at a time reaches the ranks; status and lease are answered beside it."""

import hmac
import json
import os
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from torch.distributed.checkpoint.api import CheckpointException

from . import wire
from .group import Group
from .wire import BadRequest

MAX_BODY = 256 << 20
SEQUENCE = "Trinity-Seq"
POST_VERBS = ("forward", "backward", "step", "discard", "save", "load", "offer", "send")


class Lease:
    """Ends the process when the driver has been silent for too long. torchrun then ends the other ranks."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.last = seconds, time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def renew(self) -> None:
        self.last = time.monotonic()

    def _watch(self) -> None:
        while (left := self.last + self.seconds - time.monotonic()) > 0:
            time.sleep(left)
        print(f"the driver has been silent for {self.seconds:g} s: the worker ends", file=sys.stderr, flush=True)
        os._exit(3)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], group: Group, token: str, lease: Lease) -> None:
        super().__init__(address, Handler)
        self.group, self.token, self.lease = group, token, lease
        self.lock = threading.Lock()
        self.sequence, self.last_reply = 0, b""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that closes its connection is no error of the worker."""
        if not isinstance(sys.exc_info()[1], OSError):
            traceback.print_exc()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 600  # for a client that stops in the middle of a body
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self._body() is None:
            return
        if self.path != "/v1":
            return self._fail(404, f"no resource {self.path}")
        self._reply(200, wire.encode({}, self.server.group.status()))

    def do_PUT(self) -> None:
        self._change("open")

    def do_DELETE(self) -> None:
        self._change("drop")

    def do_POST(self) -> None:
        if self.path == "/v1/alive":
            if self._body() is not None:
                self._reply(200, b"")
            return
        self._change("")

    def _change(self, verb: str) -> None:
        """Carries out a request that changes a model or uses all ranks."""
        body = self._body()
        if body is None:
            return
        parts = self.path.split("/")[1:]
        if parts[:2] != ["v1", "models"] or len(parts) != (3 if verb else 4) or not verb and parts[3] not in POST_VERBS:
            return self._fail(404, f"no resource {self.path}")
        try:
            sequence = int(self.headers.get(SEQUENCE, ""))
        except ValueError:
            return self._fail(400, f"the header {SEQUENCE} must be a number")
        server = self.server
        with server.lock:
            if sequence == server.sequence and sequence > 0:
                return self._reply(200, server.last_reply)
            if sequence != server.sequence + 1:
                return self._fail(409, f"{SEQUENCE} is {sequence}; expected {server.sequence + 1}")
            try:
                reply = wire.encode(*server.group.handle(verb or parts[3], parts[2], *wire.decode(body)))
            except BadRequest as e:
                return self._fail(400, str(e))
            except BaseException as e:  # such as CheckpointException; the other ranks may wait in a collective
                traceback.print_exc()
                self._fail(500, describe(e))
                self.wfile.flush()
                os._exit(1)
            server.sequence, server.last_reply = sequence, reply
        self._reply(200, reply)

    def _body(self) -> bytes | None:
        """Returns the body of an authorised request; None if it has been refused, or has not come whole."""
        given = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, b"Bearer " + self.server.token.encode()):
            self.close_connection = True
            self._fail(401, "missing or wrong bearer token")
            return None
        self.server.lease.renew()
        try:
            length = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            length = -1
        if not 0 <= length <= MAX_BODY:
            self.close_connection = True
            self._fail(413, f"a body must have a Content-Length of at most {MAX_BODY}")
            return None
        body = self.rfile.read(length)
        if len(body) < length:  # the client has gone
            self.close_connection = True
            return None
        return body

    def _fail(self, code: int, message: str) -> None:
        self._reply(code, json.dumps({"error": message}).encode(), "application/json")

    def _reply(self, code: int, body: bytes, kind: str = wire.CONTENT_TYPE) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def describe(e: BaseException) -> str:
    """Returns the error as a text. That of a CheckpointException has the causes, instead of the stacks of all ranks."""
    if isinstance(e, CheckpointException):
        return "; ".join(f"rank {rank}: {describe(cause)}" for rank, (cause, _) in e.failures.items())
    return f"{type(e).__name__}: {e}"


def serve(group: Group, host: str, port: int, token: str, lease_seconds: float) -> None:
    """Answers requests until the process ends."""
    Server((host, port), group, token, Lease(lease_seconds)).serve_forever()
