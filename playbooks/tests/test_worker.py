# SPDX-License-Identifier: Apache-2.0
"""The playbook that makes a host a worker: what it packs, what systemd starts, no change the second time."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from configparser import ConfigParser
from pathlib import Path

import pytest
from riobed.products import cache_dir

CHECKOUT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent
ROLE = CHECKOUT / "playbooks/roles/worker"
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
# Nothing answers there.
SCHEDULER = "tcp://127.0.0.1:1"
# On what trials run on a host, as a worker is compared.
BASIS = """
from riobed.guest import MachineSpec, guest_setup, provenance
from riobed.products import CHECKOUT
setup = guest_setup(MachineSpec(accelerator="tcg"))
print(provenance(setup, "", [CHECKOUT / "workloads/memtest"]).model_dump_json(exclude={"created"}))
"""


def call(*command: str | Path, cwd: Path = CHECKOUT, **environment: str) -> str:
    env = os.environ | environment
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a commit, a change after it, a new file, and one that git ignores."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / ".gitignore").write_text("/ignored\n")
    (folder / "program").write_text("old")
    (folder / "gone").touch()
    call("git", "init", "--quiet", cwd=folder, **GIT)
    call("git", "add", "--all", cwd=folder, **GIT)
    name = ("-c", "user.name=n", "-c", "user.email=e")
    call("git", *name, "commit", "--quiet", "--message=m", cwd=folder, **GIT)
    (folder / "program").write_text("new")
    (folder / "program").chmod(0o755)
    (folder / "gone").unlink()
    (folder / "not added").touch()
    (folder / "ignored").touch()
    return folder


def pack(checkout: Path) -> str:
    return call(ROLE / "files/pack", checkout, checkout.with_suffix(".bundle")).strip()


def unpack(checkout: Path, commit: str) -> str:
    bundle = checkout.with_suffix(".bundle")
    return call(ROLE / "files/unpack", checkout.with_name("there"), bundle, commit)


def test_a_checkout_is_brought_as_it_is(checkout: Path) -> None:
    before = call("git", "status", "--porcelain", cwd=checkout, **GIT)
    assert unpack(checkout, pack(checkout))
    assert call("git", "status", "--porcelain", cwd=checkout, **GIT) == before
    there = checkout.with_name("there")
    assert {path.name for path in there.iterdir()} == {".git", ".gitignore", "not added", "program"}
    assert (there / "program").read_text() == "new" and os.access(there / "program", os.X_OK)


def test_the_same_files_are_brought_once(checkout: Path) -> None:
    commit = pack(checkout)
    unpack(checkout, commit)
    bundle = checkout.with_suffix(".bundle")
    packed = bundle.stat()
    assert pack(checkout) == commit
    assert (bundle.stat().st_ino, bundle.stat().st_mtime_ns) == (packed.st_ino, packed.st_mtime_ns)
    assert unpack(checkout, commit) == ""


def test_what_is_gone_goes_and_what_was_built_stays(checkout: Path) -> None:
    unpack(checkout, pack(checkout))
    there = checkout.with_name("there")
    (there / "ignored").touch()
    (there / "program").write_text("changed there")
    (there / "added there").touch()
    (checkout / "not added").rename(checkout / "renamed")
    assert unpack(checkout, pack(checkout))
    assert {path.name for path in there.iterdir()} == {".git", ".gitignore", "ignored", "program", "renamed"}
    assert (there / "program").read_text() == "new"


@pytest.fixture
def service(tmp_path: Path) -> Path:
    """The service's file as the role writes it, for this checkout."""
    file = tmp_path / "riobed-worker.service"
    variables = {
        "worker_scheduler": SCHEDULER,
        "worker_checkout": str(CHECKOUT),
        "worker_cache": str(cache_dir()),
        "worker_trials": "3",
    }
    template = f"src={ROLE}/templates/riobed-worker.service.j2 dest={file} mode=0644"
    call(
        *(TOOLS / "ansible", "localhost", "--connection=local", "--module-name=template"),
        *(f"--args={template}", f"--extra-vars={json.dumps(variables)}"),
        f"--extra-vars=ansible_python_interpreter={sys.executable}",
    )
    return file


@pytest.mark.integration
def test_the_service_waits_for_its_scheduler_until_it_is_told_to_end(service: Path) -> None:
    unit = ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(service)
    command = shlex.split(unit["Service"]["ExecStart"])
    environment = dict(word.split("=", 1) for word in shlex.split(unit["Service"]["Environment"]))
    # systemd gives it next to nothing.
    worker = subprocess.Popen(command, env=environment, cwd="/", stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout
        assert worker.stdout.readline() == f"riobed: a worker of {SCHEDULER}, 3 trials at the same time\n"
        time.sleep(3)
        assert worker.poll() is None
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(240) == 0
    finally:
        worker.kill()


# A bare Debian's Python has no library beside its own, whatever this host's has.
BARE = """
import sys
if sys.prefix == sys.base_prefix:
    sys.modules |= dict.fromkeys(("packaging", "setuptools", "pkg_resources"))
"""


def play(checkout: Path) -> str:
    bare = checkout.with_name("bare")
    bare.mkdir(exist_ok=True)
    (bare / "sitecustomize.py").write_text(BARE)
    return call(
        *(TOOLS / "ansible-playbook", "--inventory=localhost,", "--connection=local", "playbooks/worker.yml"),
        f"--extra-vars=worker_scheduler={SCHEDULER} worker_checkout={checkout} worker_cache={cache_dir()}",
        "--extra-vars=worker_service=false",
        PYTHONPATH=str(bare),
    )


@pytest.mark.extended
@pytest.mark.integration
def test_the_playbook_makes_a_worker_that_is_as_this_host_and_changes_nothing_twice(tmp_path: Path) -> None:
    """All but the service; this host's cache has what is built."""
    there = tmp_path / "there"
    assert "failed=0 " in play(there)
    assert call(there / ".venv/bin/python", "-c", BASIS) == call(TOOLS / "python", "-c", BASIS)
    assert "changed=0 " in play(there)
