# SPDX-License-Identifier: Apache-2.0
"""The client of the guest agent against a server that speaks its protocol, well and badly."""

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import Any

import pytest
from harness_builders import PATIENCE_S
from riobed.errors import InfraError
from riobed.vm.agent import AgentLost, ExecResult, GuestAgent

Answer = Callable[[str, dict[str, Any]], bytes | None]
RUNS = {"exited": False}


def line(answer: object, delimit: bool = False) -> bytes:
    return (b"\xff" if delimit else b"") + json.dumps(answer).encode() + b"\n"


def good(command: str, arguments: dict[str, Any]) -> bytes:
    """What a healthy agent says."""
    match command:
        case "guest-sync-delimited":
            return line({"return": arguments["id"]}, delimit=True)
        case "guest-exec":
            return line({"return": {"pid": 42}})
        case "guest-exec-status":
            out = base64.b64encode(b"out\xff").decode()
            return line({"return": {"exited": True, "exitcode": 3, "out-data": out, "err-data": ""}})
        case "guest-ping":
            return line({"return": {}})
    return line({"error": {"class": "CommandNotFound", "desc": f"The command {command} has not been found"}})


class Server(ThreadingUnixStreamServer):
    """Answers each line it reads; None from `answer` is silence."""

    daemon_threads = True
    connection: socket.socket

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.answer: Answer = good
        self.greeting = b""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.raw = b""

    def returns(self, value: object) -> None:
        """From now on, whatever it is asked."""
        self.answer = lambda *_: line({"return": value})

    def handle_error(self, *_: object) -> None:
        """The client has had enough."""


class Handler(StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        self.server.connection = self.request
        self.request.sendall(self.server.greeting)
        for text in self.rfile:
            self.server.raw += text
            request = json.loads(text.rpartition(b"\xff")[2])
            self.server.requests.append((request["execute"], request["arguments"]))
            self.request.sendall(self.server.answer(*self.server.requests[-1]) or b"")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "a.sock") as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        yield server
        server.shutdown()


@pytest.fixture
def agent(tmp_path: Path, server: Server) -> Iterator[GuestAgent]:
    agent = GuestAgent(tmp_path / "a.sock")
    yield agent
    agent.close()


def test_sync_then_call(server: Server, agent: GuestAgent) -> None:
    agent.sync(PATIENCE_S)
    agent.sync(PATIENCE_S)
    assert agent.call("guest-ping") == {}
    (first, one), (second, other), (third, _) = server.requests
    assert [first, second, third] == ["guest-sync-delimited"] * 2 + ["guest-ping"]
    assert one["id"] != other["id"]
    # 0xFF before the request makes the agent's parser forget what was begun.
    assert server.raw.startswith(b"\xff{")


ERROR = b'{"error": {"class": "GenericError", "desc": "bad"}}\n'


@pytest.mark.parametrize("leftovers", [
    b'{"return": {"pid": 7}}\n', b'{"return": {"exi', b'\xff{"return": 999999}\n', b"garbage\n\0\0\n",
    b'\xff{"return": 999999}\n' + ERROR, b'\xff{"return": 99\xff{"return": 98}\n', b"[" * 5000 + b"\n",
])  # fmt: skip
def test_sync_throws_away_what_was_left(server: Server, agent: GuestAgent, leftovers: bytes) -> None:
    server.greeting = leftovers
    agent.sync(PATIENCE_S)
    assert len(server.requests) == 1
    assert agent.spawn(["/bin/true"]) == 42


def test_sync_again_after_an_answer_that_came_too_late(server: Server, agent: GuestAgent) -> None:
    late: list[bytes] = []

    def slow(command: str, arguments: dict[str, Any]) -> bytes | None:
        if command == "guest-ping":
            late.append(line({"return": "late"}))
            return None
        return (late.pop() if late else b"") + good(command, arguments)

    server.answer = slow
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.05)
    agent.sync(PATIENCE_S)
    assert agent.spawn(["/bin/true"]) == 42


@pytest.mark.parametrize("first", [None, b"\xff" + ERROR, b"\xff\xff\xff\n\xff"])
def test_sync_tries_again(server: Server, agent: GuestAgent, first: bytes | None) -> None:
    server.answer = lambda *request: good(*request) if len(server.requests) > 1 else first
    agent.sync(PATIENCE_S)
    assert len(server.requests) >= 2
    assert agent.spawn(["/bin/true"]) == 42


# Silence, and floods of answers that are others'.
@pytest.mark.parametrize("noise", [b"", line({"return": -1}, delimit=True), line({"return": -1})])
def test_sync_gives_up_in_time(server: Server, agent: GuestAgent, noise: bytes) -> None:
    def flood(*_: object) -> None:
        while noise:
            server.connection.sendall(noise * 500)

    server.answer = flood
    with pytest.raises(AgentLost):
        agent.sync(0.2)


def test_no_socket_at_all(tmp_path: Path) -> None:
    agent = GuestAgent(tmp_path / "none.sock")
    with pytest.raises(AgentLost):
        agent.sync(0.1)
    with pytest.raises(AgentLost, match="No such file"):
        agent.call("guest-ping")


def test_a_channel_that_is_closed_is_opened_again(server: Server, agent: GuestAgent) -> None:
    agent.sync(PATIENCE_S)
    server.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=PATIENCE_S)
    agent.sync(PATIENCE_S)
    assert agent.call("guest-ping") == {}


def test_close_forgets_half_an_answer(server: Server, agent: GuestAgent) -> None:
    server.answer = lambda *_: b'{"return": "ha'
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.05)
    agent.close()
    agent.close()
    server.answer = good
    assert agent.call("guest-ping") == {}


def test_an_error_of_the_agent_is_not_a_lost_agent(server: Server, agent: GuestAgent) -> None:
    with pytest.raises(InfraError, match="guest-fly has not been found") as caught:
        agent.call("guest-fly")
    assert not isinstance(caught.value, AgentLost)
    assert agent.call("guest-ping") == {}


@pytest.mark.parametrize("answer", [
    b"", b"garbage", b"\xff\xfe", b"[]", b"1", b"{}", b'{"ret": 1}', b"[" * 100000,
    b'{"error": null}', b'{"error": {}}', b'{"error": []}',
])  # fmt: skip
def test_an_answer_that_is_none(server: Server, agent: GuestAgent, answer: bytes) -> None:
    server.answer = lambda *_: answer + b"\n"
    with pytest.raises(AgentLost, match=r"^guest agent: answer (is not JSON|of no known form)$"):
        agent.call("guest-ping")


@pytest.mark.parametrize("returned", [None, 1, [], "x", {}, {"pid": None}, {"pid": "one"}, {"pid": {}}])
def test_a_process_id_that_is_none(server: Server, agent: GuestAgent, returned: object) -> None:
    server.returns(returned)
    with pytest.raises(AgentLost, match="of no known form"):
        agent.spawn(["/bin/true"])


NO_STATUS = [{"exitcode": "bad"}, {"exitcode": None}, {"signal": "kill"}, {"out-data": 5}, {"err-data": "a"}]


@pytest.mark.parametrize("returned", [None, 1, [], {}, *({"exited": True} | wrong for wrong in NO_STATUS)])
def test_a_status_that_is_none(server: Server, agent: GuestAgent, returned: object) -> None:
    server.returns(returned)
    with pytest.raises(AgentLost, match="of no known form"):
        agent.status(42)


def test_drops_of_an_answer_do_not_stretch_the_time(server: Server, agent: GuestAgent) -> None:
    """They come until the channel is closed."""

    def drip(*_: object) -> None:
        while True:
            server.connection.sendall(b" ")
            time.sleep(0.02)

    server.answer = drip
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.2)


def test_spawn_tells_the_agent_what_to_run(server: Server, agent: GuestAgent) -> None:
    agent.spawn(["/bin/sh", "-c", "é"], stdin=b"\xff\n", capture=True)
    agent.spawn(["/bin/true"])
    said = {"path": "/bin/sh", "arg": ["-c", "é"], "capture-output": True, "input-data": "/wo="}
    bare = {"path": "/bin/true", "arg": [], "capture-output": False}
    assert server.requests == [("guest-exec", said), ("guest-exec", bare)]


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        (RUNS, None),
        ({"exited": True, "exitcode": 0}, ExecResult(0, b"", b"")),
        ({"exited": True, "exitcode": 3, "out-data": "YQ==", "err-data": "Yg=="}, ExecResult(3, b"a", b"b")),
        ({"exited": True, "signal": 9}, ExecResult(137, b"", b"")),
        ({"exited": True}, ExecResult(128, b"", b"")),
    ],
)
def test_status(server: Server, agent: GuestAgent, returned: object, result: ExecResult | None) -> None:
    server.returns(returned)
    assert agent.status(42) == result
    assert server.requests == [("guest-exec-status", {"pid": 42})]


def busy_until(server: Server, count: float) -> Answer:
    """Its command ends at that request."""

    def answer(command: str, arguments: dict[str, Any]) -> bytes:
        still = command == "guest-exec-status" and len(server.requests) < count
        return line({"return": RUNS}) if still else good(command, arguments)

    return answer


def test_run_waits_for_the_end(server: Server, agent: GuestAgent) -> None:
    server.answer = busy_until(server, 4)
    assert agent.run(["/bin/prog"]) == ExecResult(3, b"out\xff", b"")
    assert server.requests[0][1]["capture-output"] is True
    assert len(server.requests) == 4


def test_run_has_patience_but_not_for_ever(server: Server, agent: GuestAgent) -> None:
    server.answer = busy_until(server, float("inf"))
    with pytest.raises(AgentLost, match=r"^guest command took over 0 s: /bin/sleep 'two words'$"):
        agent.run(["/bin/sleep", "two words"], timeout=0.1)


def test_a_large_answer(server: Server, agent: GuestAgent) -> None:
    output = bytes(range(256)) * (8 << 12)
    server.returns({"exited": True, "exitcode": 0, "out-data": base64.b64encode(output).decode()})
    assert agent.status(42) == ExecResult(0, output, b"")


def test_an_endless_answer(server: Server, agent: GuestAgent) -> None:
    def endless(*_: object) -> bytes:
        while True:
            server.connection.sendall(b"x" * 65536)

    server.answer = endless
    with pytest.raises(AgentLost, match="channel closed"):
        agent.call("guest-ping", timeout=PATIENCE_S)


class Files:
    """An agent with one file; `refuses` is the command that fails."""

    def __init__(self, server: Server, content: bytes = b"") -> None:
        self.content, self.at, self.refuses = content, 0, ""
        self.server = server
        server.answer = self.answer

    def answer(self, command: str, arguments: dict[str, Any]) -> bytes:
        if command == self.refuses:
            return line({"error": {"class": "GenericError", "desc": "Invalid argument"}})
        if command == "guest-file-open":
            assert arguments["path"] == "/run/file"
            self.content = self.content if arguments["mode"] == "r" else b""
            return line({"return": 1000})
        assert arguments["handle"] == 1000
        if command == "guest-file-read":
            piece = self.content[self.at : self.at + min(arguments["count"], 700_000)]
            self.at += len(piece)
            ended = self.at == len(self.content)
            return line({"return": {"buf-b64": base64.b64encode(piece).decode(), "eof": ended}})
        if command == "guest-file-write":
            self.content += base64.b64decode(arguments["buf-b64"])
        return line({"return": {}})

    @property
    def asked(self) -> list[str]:
        return [command for command, _ in self.server.requests]


CONTENT = bytes(range(256)) * (6 << 10)


def test_a_file_is_read_and_written_in_pieces(server: Server, agent: GuestAgent) -> None:
    files = Files(server, CONTENT)
    assert agent.read_file("/run/file") == CONTENT
    assert files.asked == ["guest-file-open", *["guest-file-read"] * 3, "guest-file-close"]
    server.requests.clear()
    agent.write_file("/run/file", CONTENT[::-1])
    assert files.content == CONTENT[::-1]
    assert files.asked == ["guest-file-open", *["guest-file-write"] * 2, "guest-file-close"]
    agent.write_file("/run/file", b"")
    assert files.content == b""


# What the agent has in its buffer it writes only when it closes the file.
@pytest.mark.parametrize("refuses", ["guest-file-open", "guest-file-write", "guest-file-close"])
def test_a_file_that_refuses(server: Server, agent: GuestAgent, refuses: str) -> None:
    files = Files(server)
    files.refuses = refuses
    with pytest.raises(InfraError, match="Invalid argument") as caught:
        agent.write_file("/run/file", b"text 0\n")
    assert not isinstance(caught.value, AgentLost)
    # A file that is open is closed.
    assert ("guest-file-close" in files.asked) == (refuses != "guest-file-open")


@pytest.mark.parametrize("returned", [None, {}, {"buf-b64": "YQ=="}, {"buf-b64": 1, "eof": True}])
def test_a_piece_of_a_file_that_is_none(server: Server, agent: GuestAgent, returned: object) -> None:
    server.returns(returned)
    with pytest.raises(AgentLost, match="of no known form"):
        agent.read_file("/run/file")


def test_a_file_without_end(server: Server, agent: GuestAgent) -> None:
    server.returns({"buf-b64": "YWJj" * (1 << 18), "eof": False})
    with pytest.raises(AgentLost, match="/run/file has no end"):
        agent.read_file("/run/file")
