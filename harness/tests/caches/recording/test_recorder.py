# SPDX-License-Identifier: Apache-2.0
"""The recorder: real commands under strace."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from riobed_caches.errors import CachesError, TraceError
from riobed_caches.recording.record import record
from riobed_caches.trace.check import check_events
from riobed_caches.trace.events import Event, Flag
from riobed_caches.trace.file import read_trace
from strace_events import shown

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")

# Records a command in a process of its own, and ends with its status.
RECORD = """
import sys
from pathlib import Path
from riobed_caches.errors import CachesError
from riobed_caches.recording.record import record
try:
    sys.exit(record(sys.argv[2:], Path(sys.argv[1]), keep_names=True).status)
except CachesError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""

JOB = """
printf 12345 > "made"                    # 5
printf 67 >> "made"                      # 2, at 5
exec 3<> "made"
printf ab >&3                            # 2, over the first bytes
(printf c >&3)                           # 1, in a child, at 2
exec 4>&3
printf d >&4                             # 1, at 3, through a duplicate
rm "made"
printf e >&3                             # 1, at 4, after the deletion
exec 3>&- 4>&-
printf new > "replacement"               # 3
printf old > "target"                    # 3
mv "replacement" "target"
truncate -s 2 "target"
sync "target"
dd if="target" of="copy" bs=1 conv=fsync status=none    # 2 times 1
cat "copy"
"""


def command(script: str) -> list[str]:
    return ["/bin/sh", "-ec", script]


def test_a_job_is_recorded_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded = record(command(JOB), tmp_path / "job.trace", keep_names=True)
    trace = recorded.trace
    check_events(trace.columns, "the recording")
    assert (recorded.status, capfd.readouterr().out) == (0, "ne")
    said = [" ".join(w for w in line.split() if w[0] != "p") for line in shown(trace, f"{tmp_path}/")]
    assert [line for line in said if not line.startswith(("open", "close"))] == [
        "write made 0+5",
        "write made 5+2",
        "write made 0+2",
        "write made 2+1",
        "write made 3+1",
        "write made 4+1",
        "delete made",
        "write replacement 0+3",
        "write target 0+3",
        "delete target",
        "truncate replacement size=2",
        "fsync replacement",
        "read replacement 0+1",
        "write copy 0+1",
        "read replacement 1+1",
        "write copy 1+1",
        "fsync copy",
        "read copy 0+2",
    ]
    opens = [line for line in said if line.startswith("open")]
    assert len(opens) == sum(line.startswith("close") for line in said) == 10
    assert opens[1:3] == ["open made size=5", "open made size=7"]
    header = trace.header
    assert header.recorder.startswith("strace ") and header.kernel.startswith("Linux ")
    assert (header.source, header.skipped, header.lost) == ("command sh", 0, [])
    assert set(trace.user.tolist()) == {0}


def test_its_file_is_the_trace_and_nothing_else_stays(tmp_path: Path) -> None:
    out = tmp_path / "job.trace"
    recorded = record(command(f"echo 1 > {tmp_path}/f; rm {tmp_path}/f; exit 7"), out)
    assert recorded.status == 7
    assert list(tmp_path.iterdir()) == [out]
    assert read_trace(out).sha256 == recorded.trace.sha256
    assert not any("/" in name for name in read_trace(out).header.names)


@pytest.mark.slow
def test_standard_files_keep_their_position(tmp_path: Path) -> None:
    """What was open before starts where it was, and is one file for two descriptors."""
    log = tmp_path / "log"
    log.write_bytes(b"12345")
    with log.open("ab") as appended:
        run = [sys.executable, "-c", RECORD, str(tmp_path / "t"), *command("printf ab; printf c >&2")]
        subprocess.run(run, stdout=appended, stderr=subprocess.STDOUT, check=True)
    assert log.read_bytes() == b"12345abc"
    trace = read_trace(tmp_path / "t")
    assert shown(trace, f"{tmp_path}/") == [
        "open log p0 size=5",
        "write log p0 5+2",
        "write log p0 7+1",
        "close log p0",
    ]
    assert Flag.FOR_WRITING in Flag(int(trace.flags[list(trace.event).index(Event.OPEN)]))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_to_the_command_and_what_was_recorded_stays(
    tmp_path: Path, number: signal.Signals
) -> None:
    ready, end = tmp_path / "ready", tmp_path / "end"
    script = f"trap 'printf bye > {end}; exit 3' INT TERM; printf x > {ready}; while :; do sleep 0.05; done"
    run = [sys.executable, "-c", RECORD, str(tmp_path / "t"), *command(script)]
    process = subprocess.Popen(run, start_new_session=True)
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait() == 3
    assert shown(read_trace(tmp_path / "t"), f"{tmp_path}/")[-2:] == ["write end p0 0+3", "close end p0"]


def test_a_command_that_is_killed_closes_its_files(tmp_path: Path) -> None:
    script = f"exec 3> {tmp_path}/f; rm {tmp_path}/f; kill -9 $$"
    recorded = record(command(script), tmp_path / "t", keep_names=True)
    assert recorded.status == 128 + 9
    assert shown(recorded.trace, f"{tmp_path}/")[-2:] == ["close f p0", "delete f p0"]


@pytest.mark.slow
def test_what_cannot_be_recorded_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "t"
    with pytest.raises(TraceError, match="'no-such-program' is no program"):
        record(["no-such-program"], out)
    with pytest.raises(CachesError, match="No such file"):
        record(["true"], tmp_path / "missing" / "t")
    nested = [sys.executable, "-c", RECORD, str(out), "true"]
    traced = subprocess.run(
        ["strace", "-f", "-o", os.devnull, *nested], capture_output=True, text=True, check=False
    )
    assert traced.returncode == 1
    assert "not permitted; allow ptrace" in traced.stderr
    assert len(traced.stderr.splitlines()) == 1
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "true").symlink_to("/bin/true")
    with pytest.raises(CachesError, match="strace is missing; install it"):
        record(["true"], out)
    assert not out.exists()


@pytest.mark.slow
def test_a_full_disk_keeps_what_was_recorded(tmp_path: Path) -> None:
    """The log fills a small file system; the rest of the command runs, and the trace says what is missing."""
    small = tmp_path / "small"
    small.mkdir()
    alone = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=64k none {small}"
    if subprocess.run([*alone, "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces")
    script = f"for i in $(seq 400); do echo x > {tmp_path}/f; done; echo done; exit 5"
    run = f'{mount} && "$@"; status=$?; cp {small}/t {tmp_path}/kept; ls -A {small}; exit $status'
    done = subprocess.run(
        [*alone, "sh", "-c", run, "sh", sys.executable, "-c", RECORD, str(small / "t"), *command(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("done\nt\n", "", 5)
    trace = read_trace(tmp_path / "kept")
    [loss] = trace.header.lost
    writes = sum(line.startswith("write f") for line in shown(trace, f"{tmp_path}/"))
    assert 10 < writes < 400
    assert loss.events >= 400 - writes
    assert loss.time == trace.time[-1]
