# SPDX-License-Identifier: Apache-2.0
"""Client of qemu-guest-agent over the socket of its virtio port.

The protocol is defined in QEMU's docs/interop/qemu-ga-ref: one JSON object per line. The answer to
guest-sync-delimited starts with a byte 0xFF, so the client can discard what an earlier, interrupted
conversation left in the channel. libvirt's own agent support is not used: it gives up an agent when a reset
or a restored snapshot interrupts a conversation, and here that happens all the time.
"""

import base64
import json
import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riobed.errors import InfraError

_POLL_S = 0.02
# guest-exec captures at most 16 MiB of output and sends it in base64.
_MAX_ANSWER = 32 << 20
# Bytes of a file in one message: the channel has about 1 MiB/s in an emulated guest.
_PIECE = 1 << 20


class AgentLost(InfraError):
    """The agent did not answer in time or closed its channel."""


@dataclass(frozen=True)
class ExecResult:
    """How a command in the guest ended; a signal counts as exit status 128 + its number, as in a shell."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def error(self) -> str:
        """The end of what it said on standard error."""
        return self.stderr.decode("utf-8", "replace").strip()[-200:]


@contextmanager
def _known_form() -> Iterator[None]:
    """Turn errors of parsing into AgentLost: a crashing guest's answer may violate the protocol."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError):
        raise AgentLost("guest agent: answer of no known form") from None


class GuestAgent:
    """The agent of one guest; after a reset or a restored snapshot, sync() resumes the conversation."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._sync_id = 0

    def close(self) -> None:
        """Close the channel; the next call opens it again."""
        if self._socket:
            self._socket.close()
        self._socket = None
        self._buffer = bytearray()

    def tell(self, line: str) -> None:
        """Write a line into the channel; AgentLost if it cannot be opened."""
        self._write(line.encode() + b"\n")

    def sync(self, timeout: float) -> None:
        """Wait until the agent answers, at most `timeout` seconds; AgentLost if it does not."""
        deadline = time.monotonic() + timeout
        while True:
            self._sync_id += 1
            until = min(time.monotonic() + 1.0, deadline)
            if time.monotonic() >= deadline:
                raise AgentLost(f"guest agent: no answer within {timeout:.0f} s")
            try:
                self._buffer = bytearray()
                self._send("guest-sync-delimited", {"id": self._sync_id}, delimit=True)
                while self._receive(until - time.monotonic(), after_delimiter=True) != self._sync_id:
                    pass
                return
            except InfraError:
                continue

    def call(self, command: str, arguments: dict[str, Any] | None = None, timeout: float = 10) -> Any:
        """Run one agent command and return its result; AgentLost if none comes, InfraError on an error."""
        self._send(command, arguments or {})
        return self._receive(timeout)

    def spawn(self, argv: list[str], stdin: bytes = b"", capture: bool = False) -> int:
        """Start a command in the guest and return its process id there."""
        arguments: dict[str, Any] = {"path": argv[0], "arg": argv[1:], "capture-output": capture}
        if stdin:
            arguments["input-data"] = base64.b64encode(stdin).decode()
        with _known_form():
            return int(self.call("guest-exec", arguments)["pid"])

    def status(self, pid: int, timeout: float = 10) -> ExecResult | None:
        """Return how a spawned command ended, None while it or a child that keeps its output open runs.

        The agent reports an end only once.
        """
        answer = self.call("guest-exec-status", {"pid": pid}, timeout)
        with _known_form():
            if not answer["exited"]:
                return None
            status = answer["exitcode"] if "exitcode" in answer else 128 + answer.get("signal", 0)
            return ExecResult(
                int(status),
                base64.b64decode(answer.get("out-data", "")),
                base64.b64decode(answer.get("err-data", "")),
            )

    def run(self, argv: list[str], stdin: bytes = b"", timeout: float = 60) -> ExecResult:
        """Run a command in the guest to its end; AgentLost if that takes over `timeout` seconds."""
        pid = self.spawn(argv, stdin, capture=True)
        deadline = time.monotonic() + timeout
        while (result := self.status(pid)) is None:
            if time.monotonic() > deadline:
                raise AgentLost(f"guest command took over {timeout:.0f} s: {shlex.join(argv)[:120]}")
            time.sleep(_POLL_S)
        return result

    def read_file(self, path: str) -> bytes:
        """Return what is in a file of the guest; InfraError if it cannot be read. No process is started."""
        data = b""
        with self._file(path, "r") as handle:
            while True:
                answer = self.call("guest-file-read", {"handle": handle, "count": _PIECE})
                with _known_form():
                    piece, ended = base64.b64decode(answer["buf-b64"]), answer["eof"]
                data += piece
                if len(data) > _MAX_ANSWER:
                    raise AgentLost(f"guest agent: {path} has no end")
                if ended or not piece:
                    return data

    def write_file(self, path: str, data: bytes, timeout: float = 10) -> None:
        """Write a file of the guest, which need not exist; InfraError if it cannot be. No process is started.

        AgentLost if a part of it takes over `timeout` seconds.
        """
        with self._file(path, "w", timeout) as handle:
            for start in range(0, len(data), _PIECE):
                piece = base64.b64encode(data[start : start + _PIECE]).decode()
                self.call("guest-file-write", {"handle": handle, "buf-b64": piece}, timeout)

    @contextmanager
    def _file(self, path: str, mode: str, timeout: float = 10) -> Iterator[Any]:
        handle = self.call("guest-file-open", {"path": path, "mode": mode}, timeout)
        try:
            yield handle
        except AgentLost:
            raise
        except InfraError:
            with suppress(InfraError):
                self.call("guest-file-close", {"handle": handle})
            raise
        # The agent writes what is left of its buffer only now, so this may fail, too.
        self.call("guest-file-close", {"handle": handle}, timeout)

    def _send(self, command: str, arguments: dict[str, Any], delimit: bool = False) -> None:
        request = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        self._write((b"\xff" if delimit else b"") + request)

    def _write(self, data: bytes) -> None:
        try:
            if not self._socket:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.settimeout(10)
                self._socket.connect(str(self._path))
            self._socket.settimeout(10)
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            time.sleep(_POLL_S)
            raise AgentLost(f"guest agent: {error}") from None

    def _receive(self, timeout: float, after_delimiter: bool = False) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            line = self._line(deadline)
            if after_delimiter:
                if b"\xff" not in line:
                    continue
                line = line.rpartition(b"\xff")[2]
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                raise AgentLost("guest agent: answer is not JSON") from None
            if not isinstance(answer, dict) or not ("return" in answer or "error" in answer):
                raise AgentLost("guest agent: answer of no known form")
            if "error" in answer:
                with _known_form():
                    raise InfraError(f"guest agent: {answer['error']['desc']}")
            return answer["return"]

    def _line(self, deadline: float) -> bytes:
        searched = 0
        while True:
            patience = deadline - time.monotonic()
            if patience <= 0 or not self._socket:
                raise AgentLost("guest agent: no answer in time")
            if (end := self._buffer.find(b"\n", searched)) >= 0:
                break
            searched = len(self._buffer)
            self._socket.settimeout(patience)
            try:
                data = self._socket.recv(1 << 16)
            except OSError:
                raise AgentLost("guest agent: no answer in time") from None
            if not data or len(self._buffer) > _MAX_ANSWER:
                self.close()
                raise AgentLost("guest agent: channel closed")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line
