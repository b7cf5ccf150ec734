# SPDX-License-Identifier: Apache-2.0
"""Wrong use ends with status 2, a wrong environment with 1, and one line either way."""

import json
from pathlib import Path

import pytest
from registry_image import RAM_PAGES, Ram, metadata, undo
from riorecover_helper import Riorecover, recovery, registry_options, tool

LIMITS = ("0", "much", "-1", "1Mx", "18446744073709551616", "99999999999G")
# Without a place, without a size, without pairs, off a page, not in pages; the place wraps or is no number.
REGISTRIES = ("8K", "@8K", "8K@", "4K@0", "0@0", "8K@100", "8193@0", "8K@0xfffffffffffff000", "8K@-4096")
WRONG = [
    "",
    "restore --device d",
    "inspect --colour",
    "inspect -x",
    "inspect --device",
    "inspect --registry 8K@0 --limit 1M --device d e",
    "recover --mount m",
    "recover --device d",
    "inspect --device d",
    "inspect --device d --registry 8K@0",
    *(f"inspect --device d --registry 8K@0 --limit {limit}" for limit in LIMITS),
    *(f"inspect --device d --limit 1M --registry {where}" for where in (*REGISTRIES, "+8K@0", "8K@0,4K")),
    "recover --device d --mount m --type xfs --registry 8K@0 --limit 1M",
    "recover --device d --mount m --check true",
    "recover --device d --mount m --without-log norecovery",
    'recover --device d --mount m --type xf"s',
    "recover --device d --mount m --listed",
]


@pytest.mark.parametrize("command", WRONG)
def test_wrong_use(riorecover: Riorecover, command: str) -> None:
    result = riorecover(*command.split())
    assert result.returncode == 2 and not result.stdout
    assert result.stderr.startswith("riorecover: ") and result.stderr.count("\n") == 1
    assert result.stderr.endswith("; see riorecover --help\n")


def test_blank_before_a_number_is_wrong_use(riorecover: Riorecover) -> None:
    result = riorecover("inspect", "--device", "d", "--registry", "8K@0", "--limit", " -1")
    assert result.returncode == 2


def environment_fault(riorecover: Riorecover, *arguments: object, status: int = 1) -> str:
    result = riorecover(*arguments)
    assert result.returncode == status and not result.stdout
    assert result.stderr.startswith("riorecover: ") and result.stderr.count("\n") == 1
    return result.stderr


def test_what_is_not_there_is_named(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    nothing, known = tmp_path / "nothing", registry_options(ram.valid())
    on_disk, on_none = (["--device", device] for device in (disk, nothing))
    recover = ["recover", *on_disk, "--mount", tmp_path]
    for arguments in (
        ["inspect", "--registry", "8K@0", "--limit", "1M", "--memory", nothing, *on_disk],
        ["inspect", *known, *on_none],
        ["recover", *known, *on_none, "--mount", tmp_path],
        ["inspect", *known, *on_disk, "--report", nothing / "report"],
    ):
        assert str(nothing) in environment_fault(riorecover, *arguments)
    assert str(nothing) in environment_fault(riorecover, *recover, "--e2fsck", nothing, status=4)


def test_device_is_no_disk(riorecover: Riorecover, ram: Ram, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(bytes(2047))
    for device in (tmp_path / "short", tmp_path):
        environment_fault(riorecover, "inspect", *registry_options(ram), "--device", device)


def test_more_memory_than_can_be_described(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    """A character device has no size that would bound --limit."""
    options = ["--registry", "8K@0", "--limit", "0xffffffffffffffff", "--memory", "/dev/zero"]
    result = riorecover("inspect", *options, "--device", disk)
    assert result.returncode == 1 or json.loads(result.stdout)["registry"] == "cold"


def test_limit_beyond_the_image_is_harmless(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid().entry(100, metadata(5))
    options = registry_options(ram)
    options[3] = "0xffffffffffffffff"
    result = riorecover("inspect", *options, "--device", disk)
    assert json.loads(result.stdout)["entries"]["dirty_metadata"] == 1


def test_the_report_goes_into_a_file(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    inspect = ["inspect", *registry_options(ram.valid()), "--device", disk, "--report"]
    result = riorecover(*inspect, tmp_path / "report")
    assert result.returncode == 0 and not result.stdout
    assert json.loads((tmp_path / "report").read_text())["entries"]["entries"] == RAM_PAGES
    environment_fault(riorecover, *inspect, "/dev/full")


def test_the_phases_are_named_where_the_report_is_not(
    riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path
) -> None:
    command = recovery(ram.valid(), disk, tmp_path / "none", tool("true"))
    to_file = riorecover(*command, "--report", tmp_path / "report")
    # Nothing was mounted: recovery has not come to its end.
    names = ["registry", "metadata", "e2fsck", "data"]
    assert to_file.stdout.splitlines() == [f"riorecover: {name}" for name in names]
    assert json.loads((tmp_path / "report").read_text())["mount_error"]
    assert json.loads(riorecover(*command).stdout)["mount_error"]


def test_e2fsck_output_is_kept(riorecover: Riorecover, ram: Ram, disk: Path, tmp_path: Path) -> None:
    log = tmp_path / "fsck.log"
    riorecover.recover(ram.valid(), disk, fsck_log=log)
    assert "Pass 5" in log.read_text()


def test_no_leak(riorecover: Riorecover, ram: Ram, disk: Path) -> None:
    ram.valid().entry(100, metadata(5))
    ram.log_page(0, undo(0, 5, 0, b"old"))
    riorecover.inspect(ram, disk, leaks=True)
    assert riorecover(*recovery(ram, disk), leaks=True).returncode == 3
