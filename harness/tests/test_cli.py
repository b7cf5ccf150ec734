# SPDX-License-Identifier: Apache-2.0
"""The command: exit statuses, one line for each way it can fail, and what it must not need."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from riobed import cli
from riobed import soak as soak_room
from riobed.commands import doctor, run
from riobed.commands import shell as interactive
from riobed.errors import BootError, EnvironmentFault, InfraError, RiobedError, UsageError
from riobed_results.store.models import CampaignRow, TrialRow
from riobed_results.store.store import open_store

SPEC = "name: quick\nmodes: [rio]\nfault_classes: [kernel_text]\n"
Capture = pytest.CaptureFixture[str]


def riobed(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["riobed", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        cli.main()
        sys.exit(0)
    code = caught.value.code
    return code if isinstance(code, int) else 0


def refusal(monkeypatch: pytest.MonkeyPatch, capsys: Capture, *arguments: object) -> tuple[int, str]:
    """Exit status and the one line on stderr, without "riobed: "."""
    code = riobed(monkeypatch, *arguments)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("riobed: ") and output.err.count("\n") == 1, output.err
    return code, output.err.removeprefix("riobed: ").rstrip("\n")


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A valid spec in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text(SPEC)
    return Path("spec.yaml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "no.yaml"], "spec no.yaml: No such file or directory; see harness/specs/ for examples"),
        (["run", "."], "spec .: Is a directory; see harness/specs/ for examples"),
        (["shell", "rio"], "riobed shell needs a terminal"),
        (["guest", "run", "ryo", "--", "true"], "unknown cache mode 'ryo'; there are: "),
        (["guest", "run", "rio", "--put", "x", "--", "true"], "--put x: want SRC:DST"),
        (["guest", "run", "rio", "--put", "nowhere:/x", "--", "true"], "--put nowhere:/x: nowhere does not"),
        (["soak", "--mode", "ryo"], "unknown cache mode 'ryo'; there are: "),
        (["soak", "--mode", "rio", "--only", "nosuch"], "unknown stressor 'nosuch'; there are: names, "),
        (["soak", "--mode", "rio", "--suite", "nowhere"], "suite "),
        (
            ["soak", "--mode", "rio", "--memory", "3"],
            "guest: memory_mib: memory of 3145728 bytes: want whole",
        ),
        (["trials", "--store", "http://x"], "store http://x: "),
        (["table", "corruption", "--store", "sqlite:///x?mode=rw"], "store x: unknown URL option 'mode'"),
        (["run", "spec.yaml", "--store", "sqlite:///x?mode=rw"], "store x: unknown URL option 'mode'"),
    ],
)
def test_wrong_use(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str], says: str
) -> None:
    code, message = refusal(monkeypatch, capsys, *arguments)
    assert (code, message[: len(says)]) == (2, says)
    assert [path.name for path in Path().iterdir()] == ["spec.yaml"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("[rio]", "[ryo]"), "modes: unknown cache mode 'ryo'"),
        (("kernel_text", "kernel"), "fault_classes: unknown fault class 'kernel'"),
        (("name:", "nome:"), "name: Field required"),
        (("[rio]", "["), "not YAML: "),
    ],
)
def test_a_bad_spec_leaves_no_store(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, change: tuple[str, str], says: str
) -> None:
    spec.write_text(SPEC.replace(*change))
    code, message = refusal(monkeypatch, capsys, "run", spec, "--store", "new/store.sqlite")
    assert code == 2
    assert message.startswith(f"spec spec.yaml: {says}")
    assert [path.name for path in Path().iterdir()] == ["spec.yaml"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["run"],
        ["run", "spec.yaml", "--workers", "0"],
        ["run", "spec.yaml", "--workers", "many"],
        ["run", "spec.yaml", "--nosuch"],
        ["guest", "run", "rio"],
        ["guest", "run", "rio", "--timeout", "0", "--", "true"],
        ["soak", "--vcpus", "9"],
        ["soak", "--minutes", "0"],
        ["doctor", "extra"],
        ["table", "nosuch"],
        ["table", "corruption", "--format", "pdf"],
        ["trials", "--format", "xml"],
        [],
        ["guest"],
        ["table"],
    ],
)
def test_what_the_command_line_does_not_know(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, arguments: list[str]
) -> None:
    assert riobed(monkeypatch, *arguments) == 2
    output = capsys.readouterr()
    assert "Usage: riobed" in output.err + output.out
    assert "Traceback" not in output.err
    assert [path.name for path in Path().iterdir()] == ["spec.yaml"]


@pytest.mark.parametrize(
    ("error", "code"), [(UsageError, 2), (EnvironmentFault, 1), (InfraError, 1), (BootError, 1)]
)
@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        (run, "guest_setup", ["run", "spec.yaml"]),
        (interactive, "guest_setup", ["guest", "run", "rio", "--", "true"]),
        (interactive, "shell", ["shell", "rio"]),
        (doctor, "doctor", ["doctor", "--json"]),
    ],
)
def test_what_goes_wrong_is_one_line_and_a_status(
    spec: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
    error: type[RiobedError],
    code: int,
    module: object,
    name: str,
    arguments: list[str],
) -> None:
    def fail(*_: object) -> None:
        raise error("what: where; what to do")

    monkeypatch.setattr(module, name, fail)
    assert riobed(monkeypatch, *arguments) == code
    assert capsys.readouterr().err == "riobed: what: where; what to do\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/srv/x"),
            "/srv/x: No space left on device; make room there, run the same again",
        ),
        (
            OSError(errno.EDQUOT, "Disk quota exceeded"),
            "a disk that is written to: Disk quota exceeded; make room there, run the same again",
        ),
    ],
)
def test_a_full_disk_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture, tmp_path: Path, error: OSError, line: str
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(run, "run_campaign", full)
    (tmp_path / "spec.yaml").write_text(SPEC)
    assert refusal(monkeypatch, capsys, "run", tmp_path / "spec.yaml") == (1, line)


def test_an_error_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(run, "run_campaign", broken)
    monkeypatch.setattr(sys, "argv", ["riobed", "run", "spec.yaml"])
    with pytest.raises(OSError, match="Bad file descriptor"):
        cli.main()


def test_a_store_that_cannot_be_used_stops_a_run_before_anything_else(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(run, "guest_setup", lambda *arguments: pytest.fail("went on"))
    open_store("other.sqlite", create=True)
    with sqlite3.connect("other.sqlite") as connection:
        connection.execute("UPDATE meta SET value = '99'")
    code, message = refusal(monkeypatch, capsys, "run", spec, "--store", "other.sqlite")
    assert (code, message.split(",")[0]) == (1, "store other.sqlite: has schema version 99")
    open_store("locked.sqlite", create=True)
    other = sqlite3.connect("locked.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    url = "sqlite:///locked.sqlite?timeout=0.05"
    code, message = refusal(monkeypatch, capsys, "run", spec, "--store", url)
    assert (code, message[:50]) == (1, "store locked.sqlite: is locked by another program:")
    Path("full.sqlite").mkdir()
    code, message = refusal(monkeypatch, capsys, "run", spec, "--store", spec)
    assert (code, message[:44]) == (1, "store spec.yaml: is not an SQLite database: ")
    code, message = refusal(monkeypatch, capsys, "run", spec, "--store", "spec.yaml/deeper/store.sqlite")
    assert (code, message.split(":")[0]) == (1, "store spec.yaml/deeper/store.sqlite")


def test_a_run_that_does_not_begin_leaves_no_store(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def fail(*_: object) -> None:
        raise EnvironmentFault("nothing is set up: run make setup")

    monkeypatch.setattr(run, "guest_setup", fail)
    store = Path("new/folder/store.sqlite")
    assert refusal(monkeypatch, capsys, "run", spec, "--store", store)[0] == 1
    assert not store.parent.parent.exists()


def test_an_interrupted_run_says_how_to_go_on(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_campaign", interrupted)
    assert refusal(monkeypatch, capsys, "run", spec) == (130, "stopped; run the same command to go on")
    monkeypatch.setattr(soak_room, "soak", interrupted)
    assert refusal(monkeypatch, capsys, "soak") == (130, "stopped; run the same command to go on")


@pytest.mark.parametrize("status", [0, 1, 3, 137])
def test_a_guests_exit_status_is_ours(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    asked: list[tuple[object, ...]] = []

    def guest_run(*arguments: object) -> int:
        asked.append(arguments)
        return status

    monkeypatch.setattr(interactive, "guest_run", guest_run)
    command = ["guest", "run", "rio", "--put", "a:/b", "--put", "c:/d", "--timeout", "9", "--"]
    assert riobed(monkeypatch, *command, "sh", "-c", "exit 3", "--help") == status
    assert asked == [("rio", None, ["sh", "-c", "exit 3", "--help"], ["a:/b", "c:/d"], 9.0, None)]


def test_a_doctors_verdict_is_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    for status in (0, 1):
        monkeypatch.setattr(doctor, "doctor", lambda as_json, uri, status=status: status)
        assert riobed(monkeypatch, "doctor") == status


# Runs command lines where there is no QEMU and the mere import of libvirt is an error; says how each ended.
POISONED = """
import contextlib, io, json, sys
from riobed import cli

results = []
for sys.argv in json.load(sys.stdin):
    output, code = io.StringIO(), 0
    with contextlib.redirect_stdout(output):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
        except RuntimeError as error:
            code = str(error)
    results.append((code, output.getvalue()))
print(json.dumps(results))
"""


def without_libvirt(folder: Path, *lines: list[str]) -> list[tuple[object, str]]:
    for module in ("libvirt", "libvirt_qemu", "capstone", "elftools"):
        (folder / f"{module}.py").write_text(f"raise RuntimeError('{module} was imported')\n")
    result = subprocess.run(
        [sys.executable, "-c", POISONED],
        env={**os.environ, "PYTHONPATH": str(folder), "PATH": "/nowhere"},
        input=json.dumps([["riobed", *line] for line in lines]),
        capture_output=True,
        text=True,
    )
    assert (result.returncode, result.stderr) == (0, "")
    return [(code, output) for code, output in json.loads(result.stdout)]


def test_tables_and_trials_need_neither_qemu_nor_libvirt(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    store = open_store(str(path), create=True)
    keys = ("seed", "kernel_release", "kernel_build_id", "series_commit", "qemu_version", "accelerator")
    row = store.add_campaign(CampaignRow(name="quick", spec=SPEC, host={}, **dict.fromkeys(keys, "")))
    fields = {"mode": "rio", "fault_class": "kernel_text", "seed": "1", "started": "", "finished": ""}
    crash = {
        "outcome": "crash",
        "crash_kind": "oops",
        "crash_title": "BUG at fs/inode.c",
        "corruption": "none",
    }
    store.add_trial(TrialRow(campaign_id=row.id, position=0, attempt=1, **fields, **crash))
    (tmp_path / "spec.yaml").write_text(SPEC)
    usage, table, trials, run = without_libvirt(
        tmp_path,
        ["--help"],
        ["table", "corruption", "--store", str(path), "--format", "csv"],
        ["trials", "--store", str(path)],
        # That the poison works: this one must have libvirt.
        ["run", str(tmp_path / "spec.yaml"), "--store", str(tmp_path / "other.sqlite")],
    )
    assert usage[0] == 0
    for command in ("run", "table", "trials", "shell", "guest", "doctor"):
        assert f" {command} " in usage[1]
    assert table[0] == 0 and "0 of 1" in table[1]
    assert trials[0] == 0 and "BUG at fs/inode.c" in trials[1]
    assert str(run[0]).endswith("was imported")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_installed_command_passes_signals_on(number: signal.Signals) -> None:
    """Ctrl-C, a kill, a closed terminal while a campaign is set up: a line, a status, no traceback."""
    program = (
        "import signal, sys, time; from riobed import cli\n"
        "from riobed.commands import run\n"
        # Ignored if the tests were started in the background; a terminal's is not.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "def wait(*_): print(flush=True); time.sleep(60)\n"
        "run.run_campaign = wait; sys.argv = ['riobed', 'run', 'x']; cli.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(number)
    _, error = process.communicate(timeout=10)
    assert (process.returncode, error) == (130, "riobed: stopped; run the same command to go on\n")


def test_a_file_that_cannot_be_written_is_said_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/there/answer")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == (
        "riobed: /there/answer: Permission denied; choose another place, or see that it can be written to\n"
    )
