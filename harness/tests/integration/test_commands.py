# SPDX-License-Identifier: Apache-2.0
"""The command as its user calls it, on real guests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from riobed.products import CHECKOUT

from .conftest import RIOBED, extended, small_spec


def riobed(*arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*RIOBED, *arguments], capture_output=True, text=True, timeout=timeout)


def test_guest_run_gives_output_and_exit_status(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\necho hello from $(stat -f -c %T /mnt/test); exit 7\n")
    (tmp_path / "tool").chmod(0o755)
    done = riobed("guest", "run", "rio", "--put", f"{tmp_path}/tool:/tmp/x/tool", "--", "/tmp/x/tool")
    assert (done.returncode, done.stdout) == (7, "hello from ext2/ext3\n"), done.stderr


@pytest.mark.parametrize(
    "modes",
    [["rio"], extended(["rio", "write-through"]), extended(["rio", "write-through", "--common"])],
    ids=" ".join,
)
def test_what_the_workload_executes_narrows_a_spec(tmp_path: Path, modes: list[str]) -> None:
    names = tmp_path / "executed.txt"
    beside = str(CHECKOUT / "workloads/andrew")
    request = [*modes, "--beside", beside, "--seconds", "10", "--output", str(names)]
    done = riobed("faults", "executed", *request, timeout=600)
    assert done.returncode == 0, done.stderr
    found = names.read_text().splitlines()
    assert found == sorted(set(found)) and 500 < len(found) < 3500
    # They make files and folders, fault their pages in, start processes and are switched off.
    assert {"ext4_create", "ext4_mkdir", "exc_page_fault", "copy_process", "__schedule"} <= set(found)
    # Only Rio lists pages, and only write-through writes to the disk.
    common = "--common" in modes
    assert ("__rio_folio_dirtied" in found) == (not common)
    assert ("bio_split_rw" in found) == ("write-through" in modes and not common)
    # Starts and ends of programs do not count, nor do interrupts, the kernel's threads and the agent.
    others = {
        "begin_new_exec",
        "load_elf_binary",
        "do_exit",
        "exit_mmap",
        "irq_exit_rcu",
        "hrtimer_interrupt",
    }
    assert not (others | {"kthread", "virtblk_done", "do_sys_poll"}) & set(found)
    done = riobed("faults", "sites", "delete_branch", "--functions-file", str(names), "--json")
    assert {fault["function"] for fault in json.loads(done.stdout)} <= set(found)


def test_doctor_says_what_boots() -> None:
    done = riobed("doctor", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ready"] and report["accelerator"] in ("kvm", "tcg")
    assert [finding["good"] for finding in report["findings"] if finding["what"] == "tcg"] == [True]


def test_a_workload_from_outside_the_repository(tmp_path: Path) -> None:
    """CellCounts in a file, durable by rename; the check compares with nothing but itself."""
    folder = tmp_path / "counter"
    folder.mkdir()
    (folder / "count.sh").write_text(
        'i=0; while :; do i=$((i + 1)); echo "$i" >"$1/new" && mv "$1/new" "$1/count"; sleep 0.05; done\n'
    )
    (folder / "check.sh").write_text(
        'n=$(cat "$1/count") && [ "$n" -gt 0 ] && echo "{\\"count\\": $n}" || { echo "{}"; exit 3; }\n'
    )
    (folder / "workload.yaml").write_text(
        "name: counter\ndescription: counts\nprepare: mkdir -p {dir}\n"
        "start: sh /workload/count.sh {dir}\ncheck: sh /workload/check.sh {dir}\n"
    )
    spec = tmp_path / "spec.yaml"
    spec.write_text(small_spec("own", "rio", "kernel_text", 1, "path: counter"))
    done = riobed("run", str(spec), "--store", str(tmp_path / "own.sqlite"))
    assert done.returncode == 0, done.stdout + done.stderr
    trials = json.loads(riobed("trials", "--store", str(tmp_path / "own.sqlite"), "--format", "json").stdout)
    assert [trial["position"] for trial in trials] == [0]
    assert {trial["outcome"] for trial in trials} <= {"panic", "hang", "stuck", "survived"}
    assert all((tmp_path / trial["log"]).exists() for trial in trials if trial["log"])


def test_a_kernel_that_does_not_boot_is_one_line(tmp_path: Path) -> None:
    code = f"""
import sys
from pathlib import Path
import riobed.guest.setup as setup
from riobed.products import load_manifest
broken = Path({str(tmp_path)!r}) / "bzImage"
broken.write_bytes(load_manifest().kernel.bzimage.read_bytes()[:200000])
real = load_manifest()
kernel = real.kernel.model_copy(update={{"bzimage": broken}})
setup.load_manifest = lambda: real.model_copy(update={{"kernel": kernel}})
setup.choose = lambda *_: "tcg"
import riobed.guest.guest
riobed.guest.guest.BOOT_S = 8.0
from riobed.cli import main
sys.argv = ["riobed", "guest", "run", "rio", "--", "true"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1, done.stderr
    assert lines[0].startswith("riobed: ") and "stage 0" in lines[0]


@pytest.mark.parametrize(("uri", "status"), [("qemu:///nowhere", 1), ("nonsense://x", 2)])
def test_a_libvirt_that_is_not_there_is_one_line(uri: str, status: int) -> None:
    done = riobed("guest", "run", "rio", "--connect", uri, "--", "true")
    assert done.returncode == status and len(done.stderr.strip().splitlines()) == 1, done.stderr
