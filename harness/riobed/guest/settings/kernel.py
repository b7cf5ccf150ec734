# SPDX-License-Identifier: Apache-2.0
"""The kernel of a cache mode: it is built when a mode first needs it and checked before the first trial."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psutil

from riobed.errors import EnvironmentFault, UsageError
from riobed.products import (
    CHECKOUT,
    KernelPart,
    KernelSpec,
    Manifest,
    cache_dir,
    make_manifest,
    missing,
    prepare_cache,
)

# The kernel options that every guest needs, built in or as a module, and the reason for each.
GUEST_NEEDS = {
    "CONFIG_MODULES": "the injector is a module",
    "CONFIG_KPROBES": "faults wait at probes",
    "CONFIG_DYNAMIC_FTRACE": "faults wait at function entries",
    "CONFIG_PERF_EVENTS": "activations are seen by hardware breakpoints",
    "CONFIG_KALLSYMS": "crash locations have names",
    "CONFIG_X86_IOPL_IOPERM": "memTest reports its steps to an I/O port",
    "CONFIG_SERIAL_8250_CONSOLE": "the console is a serial port",
    "CONFIG_VIRTIO_PCI": "the guest's devices are virtio's",
    "CONFIG_VIRTIO_BLK": "the guest's disks are virtio's",
    "CONFIG_VIRTIO_CONSOLE": "the agent answers through virtio's console",
    "CONFIG_EXT4_FS": "the guest's root is ext4",
    "CONFIG_DEVTMPFS": "nothing else makes device files",
    "CONFIG_TMPFS": "the root is read-only, and tmpfs holds what is written",
}
_BUILD = CHECKOUT / "playbooks/kernel.yml"
_TASK = "TASK ["


@cache
def kernel_products(kernel: KernelSpec) -> Manifest:
    """Return what guests with that kernel run on; build it first if missing. The answer is cached.

    Progress of a build goes to stderr. Raises UsageError if the kernel's files do not fit its description,
    and EnvironmentFault if it cannot be built.
    """
    if missing(kernel):
        build(kernel)
    return make_manifest(kernel=kernel)


def build(kernel: KernelSpec) -> None:
    """Build a kernel and its images with the playbook; EnvironmentFault if that fails."""
    prepare_cache(kernel=kernel)
    with _locked():
        todo = missing(kernel)
        if not todo:
            return
        time = "about 10 minutes on 2 cores" if "kernel" in todo else "about a minute"
        _say(f"Building {kernel}, once ({time})")
        status, output = _play(kernel)
    if status:
        raise EnvironmentFault(f"{kernel} cannot be built: {_reason(output)}")


def _play(kernel: KernelSpec) -> tuple[int, list[str]]:
    """Run the playbook; return its exit status and lines. EnvironmentFault if Ansible is missing."""
    playbook = Path(sys.executable).with_name("ansible-playbook")
    if not playbook.exists():
        raise EnvironmentFault(f"{playbook} is missing: run make setup")
    environment = {
        **os.environ,
        "ANSIBLE_CONFIG": str(_BUILD.with_name("ansible.cfg")),
        "PYTHONPATH": str(CHECKOUT / "harness"),
        "LC_ALL": "C.UTF-8",
        # Not with --extra-vars: Ansible would evaluate text in a fragment that looks like a template.
        "RIOBED_KERNEL": kernel.model_dump_json(),
    }
    # In its own session, so only this process gets Ctrl-C; it then ends everything the playbook started.
    with subprocess.Popen(
        [str(playbook), str(_BUILD)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output = list(_told(process))
            return process.wait(), output
        except BaseException:
            _end(process)
            raise


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _told(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield the playbook's lines; print the names of tasks that state a duration."""
    assert process.stdout
    for line in process.stdout:
        if line.startswith(_TASK) and "(about" in line:
            _say(f"  {line.removeprefix(_TASK).partition(']')[0]}")
        yield line.rstrip()


def _reason(output: list[str]) -> str:
    """Return the failed task's message, in one line of at most 400 characters."""
    said = output[max((i for i, line in enumerate(output) if line.startswith("fatal: ")), default=0) :]
    lines = [line.strip() for line in said if line.strip() and not line.startswith("PLAY RECAP")]
    return " ".join(lines)[-400:] or "no reason given"


def _end(process: subprocess.Popen[str]) -> None:
    """End a playbook and all its descendants; Ansible runs its tasks in separate sessions."""
    for each in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        each.terminate()
    process.wait()


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock that `make setup` also takes: one build at a time per cache."""
    with (cache_dir() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Waiting for another build on this host")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def kernel_config(kernel: KernelPart) -> dict[str, str]:
    """Return the options set in a kernel's .config, as CONFIG_NAME: value."""
    lines = kernel.config.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line.startswith("CONFIG_"))


def check_config(who: str, config: Mapping[str, str], needs: Mapping[str, str]) -> None:
    """Raise UsageError unless a kernel has every option in `needs`, built in or as a module."""
    for option, why in needs.items():
        if option not in config:
            raise UsageError(f"{who}: the kernel lacks {option}, but {why}; change the kernel or the mode")
