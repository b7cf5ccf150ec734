# SPDX-License-Identifier: Apache-2.0
"""`riobed faults`: the dry run says what a campaign injects, and refuses in one line what it cannot say."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from riobed import cli
from riobed.commands import faults as faults_cli
from riobed.commands import run as run_module
from riobed.faults import CLASSES, Catalogue
from riobed.guest.assembly import GuestSetup
from riobed.guest.settings.config import MachineSpec
from riobed.guest.settings.kernel import GUEST_NEEDS
from riobed.plan.rounds import plan
from riobed.plan.spec import CampaignSpec

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def built(
    vmlinux: Path, catalogue: Catalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> SimpleNamespace:
    """The victim is the kernel that is set up."""
    config = tmp_path / "config"
    config.write_text("".join(f"{name}=y\n" for name in [*GUEST_NEEDS, "CONFIG_RIO_CACHE"]))
    kernel = SimpleNamespace(vmlinux=vmlinux, build_id=catalogue.build_id, config=config)
    monkeypatch.setattr(faults_cli, "load_manifest", lambda: SimpleNamespace(kernel=kernel))
    monkeypatch.setattr("riobed.faults.cache_dir", lambda: tmp_path / "cache")
    return kernel


@pytest.fixture
def riobed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """A command line; exit status, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["riobed", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
            sys.exit(0)
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return run


def printed(riobed: Command, *arguments: object) -> str:
    code, out, _ = riobed("faults", *arguments)
    assert code == 0
    return out


def rows(riobed: Command, *arguments: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(printed(riobed, *arguments, "--json"))
    return found


def test_list_has_every_class_with_its_sites(riobed: Command, catalogue: Catalogue) -> None:
    found, lines = rows(riobed, "list"), printed(riobed, "list").splitlines()
    assert [row["name"] for row in found] == list(CLASSES)
    for row, fault_class in zip(found, CLASSES.values(), strict=True):
        assert (row["category"], row["summary"]) == (fault_class.category, fault_class.summary)
        sites = fault_class.sites and fault_class.sites(catalogue)
        assert row["sites"] == (sites and asdict(sites))
        (line,) = (line for line in lines if line.strip().startswith(f"{fault_class.name} "))
        assert not sites or f" {sites.count} " in line


@pytest.mark.parametrize("name", list(CLASSES))
def test_sites_are_those_that_a_campaign_injects(name: str, riobed: Command, catalogue: Catalogue) -> None:
    spec = CampaignSpec(name="x", modes=["rio"], fault_classes=[name], seed=7, max_trials_per_cell=3)
    for trial in plan(spec):
        expected = CLASSES[name].draw(catalogue, trial.fault_rng(), 5)
        found = rows(riobed, "sites", name, "--seed", trial.seed, "--count", 5)
        for row, fault in zip(found, expected, strict=True):
            assert row["seed"] == trial.seed
            assert row["address"] == (None if fault.address is None else f"{fault.address:#018x}")
            assert (row["old"], row["new"]) == (fault.old.hex(), fault.new.hex())
            for field in ("index", "function", "source", "old_asm", "new_asm", "probe", "params", "why"):
                assert row[field] == getattr(fault, field)
            assert bool(row["why"]) == (fault.address is not None)
        if trial.position == 0:
            assert rows(riobed, "sites", name, "--seed", 7, "--count", 5) == found


def test_the_table_shows_the_same(riobed: Command) -> None:
    found = rows(riobed, "sites", "off_by_one", "--count", 3)
    out = printed(riobed, "sites", "off_by_one", "--count", 3)
    assert "trials with seed 1/off_by_one/0" in out
    for row in found:
        for field in ("function", "old", "new", "old_asm", "new_asm", "why"):
            assert row[field] in out


def test_narrowed_sites(riobed: Command, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("many_1\nmany_2\nmany_30\n")
    options = ["--function", "many_?", "--functions-file", tmp_path / "names", "--count", 2]
    found = rows(riobed, "sites", "off_by_one", *options)
    assert {row["function"] for row in found} == {"many_1", "many_2"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("nosuch", "unknown fault class 'nosuch'; there are: kernel_text, "),
        ("pointer --seed x", "--seed x: want a campaign's seed as 1 or a trial's as 1/pointer/0"),
        ("pointer --seed -1", "--seed -1: want a campaign's seed"),
        ("pointer --seed 1/pointer", "--seed 1/pointer: want a campaign's seed"),
        ("pointer --seed ٣", "--seed ٣: want a campaign's seed"),
        (f"pointer --seed {2**63}", f"--seed {2**63}: a campaign's seed is at most {2**63 - 1}"),
        (f"pointer --seed {2**63}/pointer/0", f"--seed {2**63}/pointer/0: a campaign's seed is at most"),
        ("pointer --seed 1/off_by_one/0", "--seed 1/off_by_one/0: a trial of off_by_one, not of pointer"),
        ("pointer --count -1", "--count -1: want a number from 0 to 10000"),
        (f"pointer --count {10**30}", f"--count {10**30}: want a number from 0 to 10000"),
        ("pointer --count 5000", "pointer: 5000 faults asked for, this kernel has "),
        ("pointer --subsystem nosuch", "sites.subsystems: 'nosuch' fits no function"),
        ("pointer --subsystem /fs", "sites.subsystems.0: String should match pattern"),
        ("pointer --function short_branch", "pointer: 20 faults asked for, the part of this kernel "),
    ],
)
def test_wrong_use(arguments: str, says: str, riobed: Command) -> None:
    code, out, err = riobed("faults", "sites", *arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"riobed: {says}") and err.count("\n") == 1, err


@pytest.mark.parametrize("command", ["list", "sites pointer"])
def test_a_kernel_of_another_build(
    built: SimpleNamespace, riobed: Command, tmp_path: Path, command: str
) -> None:
    built.build_id = "1234"
    code, out, err = riobed("faults", *command.split())
    assert (code, out) == (1, "")
    assert err.startswith(f"riobed: {built.vmlinux}: build ") and err.count("\n") == 1
    assert "1234; run make setup" in err and not (tmp_path / "cache").exists()


def test_a_campaign_without_sites_is_refused_before_there_is_a_store(
    built: SimpleNamespace, riobed: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest: Any = SimpleNamespace(kernel=built)
    monkeypatch.setattr(run_module, "guest_setup", lambda *_: GuestSetup(manifest, MachineSpec(), "tcg"))
    path = tmp_path / "s.yaml"
    spec = "name: x\nmodes: [rio]\nfault_classes: [allocation, off_by_one]\n"
    path.write_text(spec + "sites: {functions: [short_branch]}\n")
    code, _, err = riobed("run", path, "--store", tmp_path / "new/store.sqlite")
    assert code == 2 and err.startswith("riobed: off_by_one: 20 faults asked for, ") and err.count("\n") == 1
    assert not (tmp_path / "new").exists()
