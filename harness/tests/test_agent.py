# SPDX-License-Identifier: Apache-2.0
"""The client of the guest agent against a server that speaks its protocol, well and badly."""

import base64
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from riobed.errors import InfraError
from riobed.vm import agent as agents
from riobed.vm.agent import AgentLost, ExecResult, GuestAgent

Answer = Callable[[str, dict[str, Any]], bytes | None]


def line(answer: object, delimit: bool = False) -> bytes:
    return (b"\xff" if delimit else b"") + json.dumps(answer).encode() + b"\n"


def good(command: str, arguments: dict[str, Any]) -> bytes | None:
    """What a healthy agent says; a command's output is its own arguments."""
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


class Server:
    """Accepts one client after the other and answers each line it reads; None from `answer` is silence."""

    def __init__(self, path: Path) -> None:
        self.answer: Answer = good
        self.greeting = b""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.raw = b""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.connection: socket.socket | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                self.connection, _ = self._listener.accept()
            except OSError:
                return
            try:
                self._talk(self.connection)
            except OSError:
                pass
            finally:
                self.connection.close()

    def _talk(self, connection: socket.socket) -> None:
        connection.sendall(self.greeting)
        rest = b""
        while data := connection.recv(1 << 16):
            self.raw += data
            *lines, rest = (rest + data).split(b"\n")
            for text in lines:
                request = json.loads(text.rpartition(b"\xff")[2])
                self.requests.append((request["execute"], request["arguments"]))
                said = self.answer(request["execute"], request["arguments"])
                if said is not None:
                    connection.sendall(said)

    def hang_up(self) -> None:
        if self.connection:
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up_quietly()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def hang_up_quietly(self) -> None:
        with contextlib.suppress(OSError):
            self.hang_up()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sock"


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    server = Server(path)
    yield server
    server.close()


@pytest.fixture
def agent(path: Path, server: Server) -> Iterator[GuestAgent]:
    agent = GuestAgent(path)
    yield agent
    agent.close()


def test_sync_then_call(server: Server, agent: GuestAgent) -> None:
    agent.sync(5)
    assert agent.call("guest-ping") == {}
    assert [command for command, _ in server.requests] == ["guest-sync-delimited", "guest-ping"]
    # 0xFF before the request makes the agent's parser forget what was begun.
    assert server.raw.startswith(b"\xff{")


def test_each_sync_has_a_number_of_its_own(server: Server, agent: GuestAgent) -> None:
    for _ in range(3):
        agent.sync(5)
    ids = [arguments["id"] for _, arguments in server.requests]
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    "leftovers",
    [
        b'{"return": {"pid": 7}}\n',
        b'{"return": {"exi',
        b'\xff{"return": 999999}\n',
        b'\xff{"return": 999999}\n{"error": {"class": "GenericError", "desc": "bad"}}\n',
        b"garbage\n\0\0\n",
        b'\xff{"return": 99\xff{"return": 98}\n',
        b"[" * 5000 + b"\n",
    ],
)
def test_sync_throws_away_what_an_earlier_conversation_left(
    server: Server, agent: GuestAgent, leftovers: bytes
) -> None:
    server.greeting = leftovers
    agent.sync(5)
    assert len(server.requests) == 1
    assert agent.spawn(["/bin/true"]) == 42


def test_sync_again_after_an_answer_that_came_too_late(server: Server, agent: GuestAgent) -> None:
    late: list[bytes] = []

    def slow(command: str, arguments: dict[str, Any]) -> bytes | None:
        if command == "guest-ping":
            late.append(line({"return": "late"}))
            return None
        return (late.pop() if late else b"") + (good(command, arguments) or b"")

    server.answer = slow
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.05)
    agent.sync(5)
    assert agent.spawn(["/bin/true"]) == 42


def test_sync_tries_until_the_guest_is_up(server: Server, agent: GuestAgent) -> None:
    def booting(command: str, arguments: dict[str, Any]) -> bytes | None:
        return good(command, arguments) if len(server.requests) > 1 else None

    server.answer = booting
    agent.sync(5)
    assert len(server.requests) == 2


def test_sync_gives_up_in_time(server: Server, agent: GuestAgent) -> None:
    server.answer = lambda command, arguments: None
    start = time.monotonic()
    with pytest.raises(AgentLost, match=r"^guest agent: no answer within 0 s$"):
        agent.sync(0.2)
    assert time.monotonic() - start < 1


@pytest.mark.parametrize("noise", [line({"return": -1}, delimit=True), line({"return": -1})])
def test_sync_gives_up_in_time_in_a_flood_of_answers(server: Server, agent: GuestAgent, noise: bytes) -> None:
    def flood(command: str, arguments: dict[str, Any]) -> bytes | None:
        assert server.connection
        while True:
            server.connection.sendall(noise * 500)

    server.answer = flood
    start = time.monotonic()
    with pytest.raises(AgentLost):
        agent.sync(0.2)
    assert time.monotonic() - start < 1
    agent.close()


def test_sync_tries_again_after_a_delimiter_without_an_answer(server: Server, agent: GuestAgent) -> None:
    server.greeting = b"\xff\xff\xff\n\xff"
    agent.sync(5)
    assert len(server.requests) == 2
    assert agent.spawn(["/bin/true"]) == 42


def test_sync_outlives_an_error(server: Server, agent: GuestAgent) -> None:
    def confused(command: str, arguments: dict[str, Any]) -> bytes | None:
        if len(server.requests) == 1:
            return line({"error": {"class": "GenericError", "desc": "Invalid JSON syntax"}}, delimit=True)
        return good(command, arguments)

    server.answer = confused
    agent.sync(5)
    assert len(server.requests) == 2


def test_no_socket_at_all(tmp_path: Path) -> None:
    agent = GuestAgent(tmp_path / "none.sock")
    with pytest.raises(AgentLost):
        agent.sync(0.1)
    with pytest.raises(AgentLost, match="No such file"):
        agent.call("guest-ping")


def test_a_channel_that_is_closed_is_opened_again(server: Server, agent: GuestAgent) -> None:
    agent.sync(5)
    server.hang_up()
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=1)
    agent.sync(5)
    assert agent.call("guest-ping") == {}


def test_close_forgets_half_an_answer(server: Server, agent: GuestAgent) -> None:
    server.answer = lambda command, arguments: b'{"return": "ha'
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.05)
    agent.close()
    agent.close()
    server.answer = good
    assert agent.call("guest-ping") == {}


def test_an_error_of_the_agent_is_not_a_lost_agent(server: Server, agent: GuestAgent) -> None:
    with pytest.raises(
        InfraError, match=r"^guest agent: The command guest-fly has not been found$"
    ) as caught:
        agent.call("guest-fly")
    assert not isinstance(caught.value, AgentLost)
    assert agent.call("guest-ping") == {}


@pytest.mark.parametrize(
    "answer",
    [
        b"\n",
        b"garbage\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"1\n",
        b"{}\n",
        b'{"ret": 1}\n',
        b"[" * 100000 + b"\n",
        b'{"error": null}\n',
        b'{"error": {}}\n',
        b'{"error": []}\n',
    ],
)
def test_an_answer_that_is_none(server: Server, agent: GuestAgent, answer: bytes) -> None:
    server.answer = lambda command, arguments: answer
    with pytest.raises(AgentLost, match=r"^guest agent: answer (is not JSON|of no known form)$"):
        agent.call("guest-ping")


@pytest.mark.parametrize("returned", [None, 1, [], "x", {}, {"pid": None}, {"pid": "one"}, {"pid": {}}])
def test_a_process_id_that_is_none(server: Server, agent: GuestAgent, returned: object) -> None:
    server.answer = lambda command, arguments: line({"return": returned})
    with pytest.raises(AgentLost, match="of no known form"):
        agent.spawn(["/bin/true"])


@pytest.mark.parametrize(
    "returned",
    [
        None,
        1,
        [],
        {},
        {"exited": True, "exitcode": "bad"},
        {"exited": True, "exitcode": None},
        {"exited": True, "exitcode": 0, "out-data": 5},
        {"exited": True, "exitcode": 0, "out-data": "a"},
        {"exited": True, "exitcode": 0, "err-data": "\u00e9"},
        {"exited": True, "signal": "kill"},
    ],
)
def test_a_status_that_is_none(server: Server, agent: GuestAgent, returned: object) -> None:
    server.answer = lambda command, arguments: line({"return": returned})
    with pytest.raises(AgentLost, match="of no known form"):
        agent.status(42)


def test_silence(server: Server, agent: GuestAgent) -> None:
    server.answer = lambda command, arguments: None
    start = time.monotonic()
    with pytest.raises(AgentLost, match="no answer in time"):
        agent.call("guest-ping", timeout=0.1)
    assert 0.09 < time.monotonic() - start < 1


def test_drops_of_an_answer_do_not_stretch_the_time(server: Server, agent: GuestAgent) -> None:
    def drip(command: str, arguments: dict[str, Any]) -> bytes | None:
        assert server.connection
        for _ in range(100):
            server.connection.sendall(b" ")
            time.sleep(0.02)
        return None

    server.answer = drip
    start = time.monotonic()
    with pytest.raises(AgentLost):
        agent.call("guest-ping", timeout=0.2)
    assert time.monotonic() - start < 1
    agent.close()


def test_an_answer_in_pieces(server: Server, agent: GuestAgent) -> None:
    def pieces(command: str, arguments: dict[str, Any]) -> bytes | None:
        assert server.connection
        for byte in good(command, arguments) or b"":
            server.connection.sendall(bytes([byte]))
        return None

    server.answer = pieces
    assert agent.spawn(["/bin/true"]) == 42


def test_spawn_tells_the_agent_what_to_run(server: Server, agent: GuestAgent) -> None:
    agent.spawn(["/bin/sh", "-c", "é"], stdin=b"\xff\n", capture=True)
    assert server.requests == [
        (
            "guest-exec",
            {"path": "/bin/sh", "arg": ["-c", "é"], "capture-output": True, "input-data": "/wo="},
        )
    ]
    agent.spawn(["/bin/true"])
    assert server.requests[-1] == ("guest-exec", {"path": "/bin/true", "arg": [], "capture-output": False})


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ({"exited": False}, None),
        ({"exited": True, "exitcode": 0}, ExecResult(0, b"", b"")),
        ({"exited": True, "exitcode": 3, "out-data": "YQ==", "err-data": "Yg=="}, ExecResult(3, b"a", b"b")),
        ({"exited": True, "signal": 9}, ExecResult(137, b"", b"")),
        ({"exited": True}, ExecResult(128, b"", b"")),
    ],
)
def test_status(server: Server, agent: GuestAgent, returned: object, result: ExecResult | None) -> None:
    server.answer = lambda command, arguments: line({"return": returned})
    assert agent.status(42) == result
    assert server.requests == [("guest-exec-status", {"pid": 42})]


def test_run_waits_for_the_end(server: Server, agent: GuestAgent) -> None:
    def busy(command: str, arguments: dict[str, Any]) -> bytes | None:
        if command == "guest-exec-status" and len(server.requests) < 4:
            return line({"return": {"exited": False}})
        return good(command, arguments)

    server.answer = busy
    assert agent.run(["/bin/prog"]) == ExecResult(3, b"out\xff", b"")
    assert server.requests[0][1]["capture-output"] is True
    assert len(server.requests) == 4


def test_run_has_patience_but_not_for_ever(server: Server, agent: GuestAgent) -> None:
    def busy(command: str, arguments: dict[str, Any]) -> bytes | None:
        if command == "guest-exec-status":
            return line({"return": {"exited": False}})
        return good(command, arguments)

    server.answer = busy
    with pytest.raises(AgentLost, match=r"^guest command took over 0 s: /bin/sleep 'two words'$"):
        agent.run(["/bin/sleep", "two words"], timeout=0.1)


def test_a_large_answer(server: Server, agent: GuestAgent) -> None:
    output = bytes(range(256)) * (8 << 12)
    encoded = base64.b64encode(output).decode()
    server.answer = lambda command, arguments: line(
        {"return": {"exited": True, "exitcode": 0, "out-data": encoded}}
    )
    result = agent.status(42)
    assert result is not None
    assert result.stdout == output


def test_an_answer_without_end_is_cut_off(
    server: Server, agent: GuestAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "_MAX_ANSWER", 1 << 20)

    def endless(command: str, arguments: dict[str, Any]) -> bytes | None:
        assert server.connection
        while True:
            server.connection.sendall(b"x" * 65536)

    server.answer = endless
    start = time.monotonic()
    with pytest.raises(AgentLost, match="channel closed"):
        agent.call("guest-ping", timeout=30)
    assert time.monotonic() - start < 5
