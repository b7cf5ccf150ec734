# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin as its user has it: a file of tests outside the repository, in a pytest of its own."""

import re
import signal
import subprocess
import sys
import time

import pytest
from riobed.products import CHECKOUT, cache_dir
from riobed.vm.host.process import qemus_with
from riobed.vm.host.scratch import scratch_dir

from .conftest import extended

DOCUMENT = CHECKOUT / "docs/pytest.md"
NVRAM = CHECKOUT / "docs/nvram.md"
CACHE = cache_dir()
# Emulated guests on a loaded host.
_PATIENCE_S = 600


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is built, although pytester's tests have a home of their own."""
    monkeypatch.setenv("RIOBED_CACHE", str(CACHE))


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments, timeout=_PATIENCE_S)


CRASH = "    riobed_guest.crash_and_recover()\n"
LATER = """    riobed_guest.run("sync")
    ledger.wait_for_lines(len(ledger.lines()) + 100)
    riobed_guest.crash_and_recover(by="panic", production=False)
    assert int(riobed_guest.run("sqlite3 ledger.db 'select count(*) from t'")) >= 100
"""


@pytest.mark.extended
def test_the_example_of_the_document(pytester: pytest.Pytester) -> None:
    """SQLite that does not wait for the disk: nothing acknowledged is lost in rio, in delayed it is."""
    example, _ = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    # Likewise when some of the transactions are on the disk: only the later ones can be lost.
    later = example.replace(CRASH, LATER)
    assert later != example
    pytester.makepyfile(test_example=example, test_later=later)
    run(pytester).assert_outcomes(passed=2)
    result = run(pytester, "--riobed-mode", "delayed")
    result.assert_outcomes(failed=2)
    # In both it is the last line that fails: the programs worked, and the database is sound.
    missing = ["> *assert set(ledger.lines()) <= set(kept)", "E *AssertionError*", "E *Extra items in the*"]
    console = ["*console of the guest, *", "*riobed: stage 0 ready*"]
    result.stdout.fnmatch_lines([*missing, *console] * 2)


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["dax", "write-through"])
def test_the_example_of_a_program_for_persistent_memory(pytester: pytest.Pytester, mode: str) -> None:
    """What is in a transaction survives a loss of power; what is not is lost."""
    text = NVRAM.read_text()
    ((source,), (test,)) = (re.findall(rf"```{of}\n(.*?)```", text, re.DOTALL) for of in ("c", "python"))
    added = "pmemobj_tx_add_range_direct(root, sizeof(*root));"
    for name, program in (("pair", source), ("bad", source.replace(added, ""))):
        (pytester.path / f"{name}.c").write_text(program)
        subprocess.run(["gcc", "-o", name, f"{name}.c", "-lpmemobj"], cwd=pytester.path, check=True)
    pytester.makepyfile(test_pair=test, test_bad=test.replace('put("pair"', 'put("bad"'))
    result = run(pytester, "--riobed-mode", mode)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test_bad.py F*", "*test_pair.py .*", "> *assert twos == 2 * ones and*"])


USE = r"""
import os
import pytest
from riobed.errors import InfraError, UsageError
from pytest_riobed.errors import CommandFailed, CommandTimeout

COUNT = "for i in $(seq {}); do echo $i; done; echo -n half"

def test_files_and_programs_survive_crash_after_crash(riobed_guest, tmp_path):
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho $1 >>log; cat log\n")
    tool.chmod(0o755)
    data = tmp_path / "data"
    data.write_bytes(os.urandom(5_000_000))
    riobed_guest.put(tool, "/tmp/bin/tool")
    riobed_guest.put(data, "some/data")
    assert riobed_guest.run("/tmp/bin/tool 1") == "1\n"
    report = riobed_guest.crash_and_recover(by="panic")
    assert report.registry == "recovered" and report.data.pages > 1000
    assert riobed_guest.read("some/data") == data.read_bytes()
    assert riobed_guest.run("/tmp/bin/tool 2") == "1\n2\n"
    riobed_guest.crash_and_recover(production=False)
    assert riobed_guest.run("/tmp/bin/tool 3") == "1\n2\n3\n"
    with pytest.raises(UsageError, match="^the guest is in stage 0"):
        riobed_guest.crash_and_recover()

def test_each_test_begins_with_nothing(riobed_guest):
    assert riobed_guest.run("ls . /tmp") == ".:\nlost+found\n\n/tmp:\n"

def test_programs_are_followed(riobed_guest):
    first = riobed_guest.start(COUNT.format(3))
    assert first.wait() == ["1", "2", "3"]
    endless = riobed_guest.start("while :; do echo go; sleep 0.1; done")
    with pytest.raises(UsageError, match="only one can be followed$"):
        riobed_guest.start("true")
    before = endless.wait_for_lines(3)
    with pytest.raises(InfraError, match="still runs after 1 s"):
        endless.wait(timeout=1)
    riobed_guest.crash_and_recover(production=False)
    assert len(endless.lines()) > len(before) and set(endless.lines()) == {"go"}
    with pytest.raises(UsageError, match="ran when the guest crashed"):
        endless.result()
    again = riobed_guest.start("echo new; echo why >&2; exit 3")
    with pytest.raises(CommandFailed, match="status 3 after 1 lines of 2: why$"):
        again.wait_for_lines(2)
    assert first.lines() == ["1", "2", "3"]

def test_a_command_that_does_not_end(riobed_guest, tmp_path):
    for command in ("echo before; sleep 1000", "setsid sleep 1000 & echo before"):
        with pytest.raises(CommandTimeout, match="within 3 s(?s:.*) standard output:\nbefore$"):
            riobed_guest.run(command, timeout=3)
    with pytest.raises(CommandTimeout) as caught:
        riobed_guest.run("yes", timeout=3)
    assert caught.value.result.stdout.startswith(b"y\ny\n")
    assert "1000" not in riobed_guest.run("pgrep -ax 'sleep|yes' || :")
    riobed_guest.run("sleep 2000 >/dev/null 2>&1 &")
    assert "2000" in riobed_guest.run("pgrep -ax sleep")
    # A server that changes its user can read what root makes.
    riobed_guest.put(tmp_path, "some/folder")
    assert riobed_guest.run("umask; stat -c %a some") == "0022\n755\n"

def test_what_goes_wrong_is_one_line(riobed_guest, tmp_path):
    for path in ("/usr/bin/x", "/tmp/x"):
        try:
            riobed_guest.put(__file__, path)
        except InfraError as error:
            print("PUT", path, error)
    assert riobed_guest.run("cat /tmp/x").startswith("import os")
    for path in ("nothing", "lost+found"):
        try:
            riobed_guest.read(path)
        except CommandFailed as error:
            print("READ", error)
    riobed_guest.run("echo c >/proc/sysrq-trigger")

def test_after_a_crash_that_was_not_asked_for(riobed_guest):
    assert riobed_guest.run("echo well") == "well\n"
"""

ANOTHER = """
import pytest

@pytest.mark.riobed("delayed", memory_mib=384, disk_mib=64)
def test_another_guest(riobed_guest):
    assert riobed_guest.mode == "delayed"
    assert 200 < int(riobed_guest.run("free -m | awk '/Mem/ {print $2}'")) < 384
    assert 40 < int(riobed_guest.run("df -m . | awk 'END {print $2}'")) < 64
    riobed_guest.run("echo kept >kept; sync; echo lost >lost")
    riobed_guest.crash_and_recover()
    assert riobed_guest.run("cat kept; ls") == "kept\nkept\nlost+found\n"
"""


def test_what_a_test_can_do(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(USE)
    result = run(pytester)
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        [
            "> *riobed_guest.run(*sysrq-trigger*",
            "E *InfraError: echo c >*: the guest's kernel crashed: panic: sysrq triggered crash",
            "PUT /usr/bin/x copy to /usr/bin/x: *Read-only file system*",
            "READ read nothing: status 1: *No such file*",
            "READ read lost+found: status 1: *Is a directory*",
            "*console of the guest, now*",
            "*Kernel panic - not syncing: sysrq triggered crash*",
            "FAILED *test_what_goes_wrong_is_one_line*",
        ]
    )
    # The errors' own places are in riobed, where the user has nothing to look for.
    assert "agent.py" not in result.stdout.str()


@pytest.mark.extended
def test_a_test_may_want_another_guest(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ANOTHER)
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize("number", [extended(signal.SIGINT), signal.SIGTERM])
def test_nothing_is_left_after_a_signal(pytester: pytest.Pytester, number: signal.Signals) -> None:
    pytester.makepyfile(
        """
        import time, pytest
        def test_long(riobed_guest):
            print(riobed_guest.run("echo in the guest"), flush=True)
            time.sleep(100)
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-s"],
        cwd=pytester.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout
    seen = next(line for line in process.stdout if "in the guest" in line)
    mark = f"riobed-{process.pid}-".encode()
    assert seen and qemus_with(mark)
    process.send_signal(number)
    rest, _ = process.communicate(timeout=240)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, rest
    time.sleep(0.1)
    assert not qemus_with(mark)
    assert not list(scratch_dir().parent.glob(f"riobed-{process.pid}-*"))
