"""Asks endpoints over HTTP, with connections that are kept."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import urllib.parse
import uuid
from typing import Any

_MOST_KEPT = 256
_ATTEMPTS = 3  # of a request that a busy server turns away

_kept: dict[tuple[str, str], list[http.client.HTTPConnection]] = {}
_lock = threading.Lock()
_tls: list[ssl.SSLContext] = []  # loading the certificates takes 100 ms


class ModelError(RuntimeError):
    """A model's endpoint has refused a request."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _connect(scheme: str, host: str) -> http.client.HTTPConnection:
    if scheme != "https":
        return http.client.HTTPConnection(host)
    with _lock:
        if not _tls:
            _tls.append(ssl.create_default_context())
    return http.client.HTTPSConnection(host, context=_tls[0])


def _take(key: tuple[str, str]) -> tuple[http.client.HTTPConnection, bool]:
    """Return a connection, and whether it has been used before."""
    with _lock:
        kept = _kept.setdefault(key, [])
        if kept:
            return kept.pop(), True
    return _connect(*key), False


def _keep(key: tuple[str, str], connection: http.client.HTTPConnection) -> None:
    with _lock:
        if len(_kept[key]) < _MOST_KEPT:
            _kept[key].append(connection)
            return
    connection.close()


def ask(base_url: str, api_key: str, path: str, body: Any = None) -> Any:
    """Send a body to a path of an endpoint, or get it without one, and return the answer.

    An attempt that may have been received is repeated under the same name, so the endpoint answers it once. Raises
    ModelError if the endpoint refuses, and OSError if it cannot be reached.
    """
    url = urllib.parse.urlsplit(base_url + path)
    headers = {"Authorization": "Bearer " + api_key, "Idempotency-Key": uuid.uuid4().hex}
    data = None if body is None else json.dumps(body).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    target, method = url.path + (f"?{url.query}" if url.query else ""), "GET" if data is None else "POST"
    for attempt in range(1, _ATTEMPTS + 1):
        status, text, again = _once((url.scheme, url.netloc), method, target, data, headers)
        if status == 200:
            return json.loads(text)
        if attempt == _ATTEMPTS or not again:
            break
        time.sleep(0.25 * 2**attempt)
    raise ModelError(status, f"{path.lstrip('/')}: {_reason(status, text)}")


def _once(
    key: tuple[str, str], method: str, target: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, bytes, bool]:
    """Return status and text of an answer, and whether the same request may succeed later."""
    while True:
        connection, used = _take(key)
        try:
            connection.request(method, target, data, headers)
            reply = connection.getresponse()
            text = reply.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            if used:
                continue  # the server has closed an idle connection
            raise
        except BaseException:
            connection.close()
            raise
        if reply.will_close:
            connection.close()
        else:
            _keep(key, connection)
        busy = reply.status in (408, 429, 502, 503, 504)
        return reply.status, text, busy and reply.getheader("x-should-retry") != "false"


def _reason(status: int, text: bytes) -> str:
    """Return what an answer says about an error."""
    try:
        said = json.loads(text)["error"]
        return str(said["message"] if isinstance(said, dict) else said)
    except (ValueError, KeyError, TypeError):
        return f"status {status}: {text[:300].decode(errors='replace')}"
