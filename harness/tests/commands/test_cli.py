# SPDX-License-Identifier: Apache-2.0
"""The command: exit statuses, one line for each way it can fail, and what it must not need."""

import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from harness_builders import campaign_row, trial_row
from riobed import cli
from riobed.commands import run
from riobed.commands import shell as interactive
from riobed.errors import BootError, EnvironmentFault, InfraError, RiobedError, UsageError
from riobed_results.store.store import open_store

SPEC = "name: quick\nmodes: [rio]\nfault_classes: [kernel_text]\n"


class Command:
    """The command, run in this process in a folder with a valid spec."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.patch = monkeypatch.setattr
        self.capsys = capsys

    def __call__(self, *arguments: object) -> int:
        """Its exit status."""
        self.patch(sys, "argv", ["riobed", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
            sys.exit(0)
        code = caught.value.code
        return code if isinstance(code, int) else 0

    def refusal(self, *arguments: object) -> tuple[int, str]:
        """Exit status and the one line on stderr, without "riobed: "."""
        code = self(*arguments)
        output = self.capsys.readouterr()
        assert output.out == ""
        assert output.err.startswith("riobed: ") and output.err.count("\n") == 1, output.err
        return code, output.err.removeprefix("riobed: ").rstrip("\n")

    def fails(self, module: object, name: str, error: BaseException) -> None:
        """A function of a module does."""

        def fail(*_: object) -> None:
            raise error

        self.patch(module, name, fail)


@pytest.fixture
def riobed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(SPEC)
    return Command(monkeypatch, capsys)


def nothing_was_written() -> bool:
    return [path.name for path in Path().iterdir()] == ["spec.yaml"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("run no.yaml", "spec no.yaml: No such file or directory; see harness/specs/ for examples"),
        ("run .", "spec .: Is a directory; see harness/specs/ for examples"),
        ("shell rio", "riobed shell needs a terminal"),
        ("guest run ryo -- true", "unknown cache mode 'ryo'; there are: "),
        ("guest run rio --put x -- true", "--put x: want SRC:DST"),
        ("guest run rio --put nowhere:/x -- true", "--put nowhere:/x: nowhere does not"),
        ("soak --mode ryo", "unknown cache mode 'ryo'; there are: "),
        ("soak --mode rio --only nosuch", "unknown stressor 'nosuch'; there are: names, "),
        ("soak --mode rio --suite nowhere", "suite "),
        ("soak --mode rio --memory 3", "guest: memory_mib: memory of 3145728 bytes: want whole"),
        ("trials --store http://x", "store http://x: "),
        ("table corruption --store sqlite:///x?mode=rw", "store x: unknown URL option 'mode'"),
        ("run spec.yaml --store sqlite:///x?mode=rw", "store x: unknown URL option 'mode'"),
    ],
)
def test_wrong_use(riobed: Command, arguments: str, says: str) -> None:
    code, message = riobed.refusal(*arguments.split())
    assert (code, message[: len(says)]) == (2, says)
    assert nothing_was_written()


def test_help_is_in_panels(riobed: Command) -> None:
    assert riobed("--help") == 0
    panels = re.findall(r"^╭─ (\w+) ─", riobed.capsys.readouterr().out, re.MULTILINE)
    assert panels == ["Options", "Run", "Results", "Inspect", "Measure"]


def test_a_bad_spec_leaves_no_store(riobed: Command) -> None:
    Path("spec.yaml").write_text(SPEC.replace("[rio]", "[ryo]"))
    code, message = riobed.refusal("run", "spec.yaml", "--store", "new/store.sqlite")
    assert code == 2 and message.startswith("spec spec.yaml: modes: unknown cache mode 'ryo'")
    assert nothing_was_written()


@pytest.mark.parametrize(
    "arguments",
    [
        *("", "nosuch", "guest", "table", "table nosuch", "table corruption --format pdf"),
        *("run", "run spec.yaml --workers 0", "run spec.yaml --workers many", "run spec.yaml --nosuch"),
        *("guest run rio", "guest run rio --timeout 0 -- true", "soak --vcpus 9", "soak --minutes 0"),
        *("doctor extra", "trials --format xml"),
    ],
)
def test_what_the_command_line_does_not_know(riobed: Command, arguments: str) -> None:
    assert riobed(*arguments.split()) == 2
    output = riobed.capsys.readouterr()
    assert "Usage: riobed" in output.err + output.out
    assert "Traceback" not in output.err
    assert nothing_was_written()


@pytest.mark.parametrize(
    ("error", "code"),
    [(UsageError, 2), (EnvironmentFault, 1), (InfraError, 1), (partial(BootError, console="last words"), 1)],
)
def test_what_goes_wrong_is_one_line_and_a_status(
    riobed: Command, error: Callable[[str], RiobedError], code: int
) -> None:
    """A guest that does not boot leaves what it printed above that line."""
    riobed.fails(run, "run_campaign", error("what: where; what to do"))
    assert riobed("run", "spec.yaml") == code
    printed = ["last words"] if isinstance(error, partial) else []
    assert riobed.capsys.readouterr().err.splitlines() == [*printed, "riobed: what: where; what to do"]


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/srv/x"), "/srv/x: No space left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "a disk that is written to: Disk quota"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x: Permission denied; choose another"),
    ],
)
def test_what_cannot_be_written_is_said_in_one_line(riobed: Command, error: OSError, where: str) -> None:
    riobed.fails(run, "run_campaign", error)
    code, message = riobed.refusal("run", "spec.yaml")
    assert code == 1 and message.startswith(where)


def test_an_error_of_ours_is_not_hidden(riobed: Command) -> None:
    riobed.fails(run, "run_campaign", OSError(errno.EBADF, "Bad file descriptor"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        riobed("run", "spec.yaml")


def test_a_store_that_cannot_be_used_stops_a_run_before_anything_else(riobed: Command) -> None:
    riobed.fails(run, "guest_setup", AssertionError("went on"))
    open_store("other.sqlite", create=True)
    with sqlite3.connect("other.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99'")
    open_store("locked.sqlite", create=True)
    locking = sqlite3.connect("locked.sqlite", isolation_level=None)
    locking.execute("BEGIN EXCLUSIVE")
    for store, says in {
        "other.sqlite": "store other.sqlite: has schema version 99",
        "sqlite:///locked.sqlite?timeout=0.05": "store locked.sqlite: is locked by another program:",
        "spec.yaml": "store spec.yaml: is not an SQLite database: ",
        "spec.yaml/deeper/store.sqlite": "store spec.yaml/deeper/store.sqlite:",
    }.items():
        code, message = riobed.refusal("run", "spec.yaml", "--store", store)
        assert (code, message[: len(says)]) == (1, says)


@pytest.mark.parametrize("status", [0, 1, 3, 137])
def test_a_guests_exit_status_is_ours(riobed: Command, status: int) -> None:
    asked: list[tuple[object, ...]] = []
    riobed.patch(interactive, "guest_run", lambda *arguments: asked.append(arguments) or status)
    command = ["guest", "run", "rio", "--put", "a:/b", "--put", "c:/d", "--timeout", "9", "--"]
    assert riobed(*command, "sh", "-c", "exit 3", "--help") == status
    assert asked == [("rio", None, ["sh", "-c", "exit 3", "--help"], ["a:/b", "c:/d"], 9.0, None)]


def test_tables_and_trials_need_neither_qemu_nor_libvirt(tmp_path: Path) -> None:
    for module in ("libvirt", "libvirt_qemu", "capstone", "elftools"):
        (tmp_path / f"{module}.py").write_text(f"raise RuntimeError('{module} was imported')\n")
    path = tmp_path / "store.sqlite"
    store = open_store(str(path), create=True)
    crash = {"crash_kind": "oops", "crash_title": "BUG at fs/inode.c", "corruption": "none"}
    row = store.add_campaign(campaign_row(name="quick", spec=SPEC))
    store.add_trial(trial_row(campaign_id=row.id, **crash))
    (tmp_path / "spec.yaml").write_text(SPEC)

    def said(arguments: str) -> str:
        env = {
            **os.environ,
            "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
            "PATH": "/nowhere",
        }
        argv = [sys.executable, "-m", "riobed.cli", *arguments.split()]
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
        return done.stdout + done.stderr

    assert "0 of 1" in said(f"table corruption --store {path} --format csv")
    assert "BUG at fs/inode.c" in said(f"trials --store {path}")
    # That the poison works: this one must have libvirt.
    assert "was imported" in said(f"run {tmp_path}/spec.yaml --store {tmp_path}/other.sqlite")


@contextmanager
def written(fifo: Path, reader: subprocess.Popen[str]) -> Iterator[None]:
    """Open for writing what a process is going to read, as soon as it has opened it."""
    fifo_end = None
    while fifo_end is None:
        assert reader.poll() is None
        with suppress(OSError):
            fifo_end = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.01)
    try:
        yield
    finally:
        os.close(fifo_end)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_is_interrupted_says_how_to_go_on(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, a kill, a closed terminal: a line, a status, no traceback. It waits for who writes the spec."""
    os.mkfifo(tmp_path / "spec.yaml")
    program = [sys.executable, "-m", "riobed.cli", "run", tmp_path / "spec.yaml"]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Ignored, if the tests run under nohup; a terminal's is not.
    options["preexec_fn"] = partial(signal.signal, number, signal.SIG_DFL)
    with subprocess.Popen(program, **options) as process, written(tmp_path / "spec.yaml", process):
        process.send_signal(number)
        output, error = process.communicate()
    assert (process.returncode, output) == (130, "")
    assert error == "riobed: stopped; run the same command to go on\n"


def test_a_spec_is_checked_and_says_by_what_its_modes_are_judged(
    riobed: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "own_modes: {late: {summary: s, mount: commit=1}}\n"
    (tmp_path / "spec.yaml").write_text(SPEC.replace("[rio]", "[rio, late]") + own)
    assert riobed("check", tmp_path / "spec.yaml", "--json") == 0
    rio, late = json.loads(capsys.readouterr().out)
    assert (rio["judged_by"], late["judged_by"], late["window_s"]) == ("steps", "synced", 36)
    assert "damaged" in late["broken"] and "older" not in late["broken"]
    assert riobed("check", tmp_path / "spec.yaml") == 0
    assert "what was synced" in capsys.readouterr().out
    (tmp_path / "spec.yaml").write_text(SPEC + "own_modes: {late: {summary: s, promise: steps}}\n")
    status, said = riobed.refusal("check", tmp_path / "spec.yaml")
    assert status == 2 and "makes no step durable" in said
