# SPDX-License-Identifier: Apache-2.0
"""A spec is read whole or refused in one line that names the file and the key."""

import re
from pathlib import Path

import pytest
import yaml
from riobed.errors import UsageError
from riobed.faults import CLASSES, SiteFilter
from riobed.guest.modes import all_modes
from riobed.plan.spec import CampaignSpec, load_spec
from riobed.plan.stored import spec_data, stored_spec
from riobed.products import Fragment

FOLDER = Path(__file__).parents[1] / "specs"
GOOD = "name: quick\nmodes: [write-through, rio]\nfault_classes: [kernel_text]\n"
SPECS = sorted([*FOLDER.glob("*.yaml"), *FOLDER.glob("*/spec.yaml")])


def refusal(path: Path) -> str:
    """The one line after "spec FILE: "."""
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    message = str(caught.value)
    assert caught.value.exit_code == 2
    assert "\n" not in message
    assert message.startswith(f"spec {path}: ")
    return message.removeprefix(f"spec {path}: ")


def test_a_short_spec_and_its_defaults(tmp_path: Path) -> None:
    path = tmp_path / "specs" / "s.yaml"
    path.parent.mkdir()
    path.write_text(GOOD)
    spec = load_spec(path)
    assert (spec.name, spec.modes, spec.fault_classes) == ("quick", ["write-through", "rio"], ["kernel_text"])
    assert (spec.faults, spec.limit_s, spec.machine.memory_mib, spec.machine.vcpus) == (20, 600, 512, 1)
    assert (spec.machine.accelerator, spec.machine.save_memory) == ("auto", False)


@pytest.mark.parametrize("given", ["../load", "/load"])
def test_the_workload_is_found_from_the_folder_of_the_spec(tmp_path: Path, given: str) -> None:
    path = tmp_path / "specs" / "s.yaml"
    path.parent.mkdir()
    path.write_text(f"{GOOD}workload: {{path: {given}, options: {{twins: 3, kind: fast}}}}\n")
    workload = load_spec(path).workload
    assert workload.path == (Path("/load") if given == "/load" else tmp_path / "load")
    assert workload.options == {"twins": 3, "kind": "fast"}


def test_the_list_of_functions_is_found_from_the_folder_of_the_spec(tmp_path: Path) -> None:
    path = tmp_path / "specs" / "s.yaml"
    path.parent.mkdir()
    (tmp_path / "executed").write_text("vfs_read\next4_sync_file\n")
    path.write_text(GOOD + "sites: {subsystems: [fs, mm/], functions_file: ../executed}\n")
    sites = load_spec(path).sites
    assert (sites.subsystems, sites.functions_listed) == (("fs", "mm/"), ("ext4_sync_file", "vfs_read"))
    path.write_text(GOOD)
    assert load_spec(path).sites == SiteFilter()


@pytest.mark.parametrize(
    ("classes", "can_plant", "controls"),
    [
        ("kernel_text", True, {"none": 0.1, "planted": 0.1}),
        ("kernel_text", False, {"none": 0.1}),
        ("kernel_text, none", True, {"planted": 0.1}),
    ],
)
def test_every_campaign_has_the_controls_its_workload_can_do(
    tmp_path: Path, classes: str, can_plant: bool, controls: dict[str, float]
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        f"name: a\nmodes: [rio]\nfault_classes: [{classes}]\ncrashes_per_cell: 25\nmax_trials_per_cell: 90\n"
    )
    spec = load_spec(path).with_controls(can_plant)
    assert spec.controls == controls
    assert spec.classes == [*classes.split(", "), *controls]
    assert {spec.crashes_wanted(name) for name in controls} == {3}
    assert {spec.trials_allowed(name) for name in controls} == {9}
    assert (spec.crashes_wanted("kernel_text"), spec.trials_allowed("kernel_text")) == (25, 90)


def test_controls_may_be_left_out_on_purpose(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(GOOD + "controls: {}\n")
    assert load_spec(path).with_controls(True).classes == ["kernel_text"]


def test_there_are_specs_to_start_from() -> None:
    assert "quick.yaml" in [path.name for path in SPECS]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_the_specs_of_the_repository_are_valid(path: Path) -> None:
    assert (load_spec(path).workload.path / "workload.yaml").is_file()


OWN = """
mine: {summary: mine, filesystem: xfs, sync_writes: true, kernel: {config: [./fast.config]}}
unused: {summary: of another spec}
"""
WITH_OWN = (
    GOOD.replace("[write-through, rio]", "[rio, mine, inline]")
    + """
modes_file: ../my.yaml
own_modes: {inline: {summary: tmpfs, filesystem: tmpfs}}
machine: {disk_mib: 300}
"""
)


def write_own(folder: Path, spec: str = WITH_OWN) -> Path:
    """The spec's file, with its modes and their fragment beside it."""
    path = folder / "specs" / "s.yaml"
    path.parent.mkdir()
    path.write_text(spec)
    (folder / "my.yaml").write_text(OWN)
    (folder / "fast.config").write_text("CONFIG_FAST=y\n")
    return path


def test_own_modes_are_kept_with_the_campaign(tmp_path: Path) -> None:
    spec = load_spec(write_own(tmp_path))
    assert set(spec.own_modes) == {"mine", "inline"}
    mine = spec.mode("mine")
    assert mine.filesystem == "xfs" and mine.kernel
    assert mine.kernel.config == (Fragment(name="fast", text="CONFIG_FAST=y\n"),)
    text = yaml.safe_dump(spec_data(spec))
    (tmp_path / "my.yaml").unlink()
    (tmp_path / "fast.config").unlink()
    stored = stored_spec("test", text)
    assert [stored.mode(name) for name in stored.modes] == [spec.mode(name) for name in spec.modes]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("{inline", "{rio: {summary: s}, inline", "shipped"),
        ("{inline", "{mine: {summary: s}, inline", "my.yaml"),
        ("../my.yaml", "nothing.yaml", "nothing.yaml"),
        ("filesystem: tmpfs", "filesystem: zfs", "zfs"),
        ("disk_mib: 300", "disk_mib: 299", "mine: .*300 MiB"),
        ("modes: [rio", "modes: [their", "'their'; there are: .*, inline, mine, unused"),
        ("machine:", "modes: [rio]\nmachine:", "twice"),
    ],
)
def test_own_modes_that_are_wrong(tmp_path: Path, old: str, new: str, word: str) -> None:
    assert old in WITH_OWN
    assert re.search(word, refusal(write_own(tmp_path, WITH_OWN.replace(old, new))))


MODES = ", ".join(all_modes())
FAULT_CLASSES = ", ".join(CLASSES)


RUNTIME = GOOD.replace("kernel_text", "allocation")


def test_parameters_are_those_the_class_draws_by(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(RUNTIME + "parameters: {allocation: {ms: [7, 7]}}\n")
    allocation = load_spec(tmp_path / "spec.yaml").fault_class("allocation")
    assert dict(allocation.parameters or {}) == {"calls": (1000, 4000), "ms": (7, 7)}
    (tmp_path / "plain.yaml").write_text(RUNTIME)
    assert load_spec(tmp_path / "plain.yaml").fault_class("allocation") is CLASSES["allocation"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # unknown names
        (GOOD.replace("rio", "ryo"), f"modes: unknown cache mode 'ryo'; there are: {MODES}"),
        (
            GOOD.replace("kernel_text", "kernel"),
            f"fault_classes: unknown fault class 'kernel'; there are: {FAULT_CLASSES}",
        ),
        (GOOD + "crashes: 3\n", "crashes: Extra inputs are not permitted"),
        (GOOD + "machine: {ram: 3}\n", "machine.ram: Extra inputs are not permitted"),
        (GOOD + "workload: {folder: x}\n", "workload.folder: Extra inputs are not permitted"),
        (GOOD + '"two\\nlines": 1\n', "two lines: Extra inputs are not permitted"),
        (GOOD + "1: 2\n", "1: Keys should be strings"),
        # missing, empty, twice
        (GOOD.replace("name: quick\n", ""), "name: Field required"),
        (GOOD.replace("modes: [write-through, rio]\n", ""), "modes: Field required"),
        (GOOD.replace("[kernel_text]", "[]"), "fault_classes: List should have at least 1 item"),
        (GOOD.replace("write-through", "rio"), "spec: modes: duplicate name"),
        (GOOD.replace("[kernel_text]", "[kernel_text, kernel_text]"), "spec: fault_classes: duplicate name"),
        (GOOD + "sites: {subsystem: [mm]}\n", "sites.subsystem: Extra inputs are not permitted"),
        (GOOD + "sites: {subsystems: []}\n", "sites.subsystems: Tuple should have at least 1 item"),
        (GOOD + "sites: {subsystems: mm}\n", "sites.subsystems: Input should be a valid tuple"),
        (GOOD + "sites: {subsystems: [/mm]}\n", "sites.subsystems.0: String should match pattern"),
        (GOOD + "sites: {functions: [3]}\n", "sites.functions.0: Input should be a valid string"),
        (GOOD + "sites: {functions_file: no/such}\n", "sites.functions_file "),
        (GOOD + 'sites: {functions_file: "a\\0b"}\n', "sites.functions_file "),
        # controls
        (GOOD + "controls: {control: 1}\n", "controls.control.[key]: Input should be 'none' or 'planted'"),
        (GOOD + "controls: {none: -1}\n", "controls.none: Input should be greater than or equal to 0"),
        (GOOD.replace("text]", "text, none]") + "controls: {none: 1}\n", "spec: controls: none is one of"),
        # parameters of fault classes
        (RUNTIME + "parameters: {heap: {}}\n", "parameters: unknown fault class 'heap'; there are: "),
        (RUNTIME + "parameters: {kernel_heap: {}}\n", "parameters: kernel_heap: this fault class has no"),
        (RUNTIME + "parameters: {copy_overrun: {}}\n", "spec: parameters: copy_overrun is none of the"),
        (RUNTIME + "parameters: {allocation: 3}\n", "parameters.allocation: Input should be a valid dict"),
        (RUNTIME + "parameters: {allocation: {s: 1}}\n", "parameters: allocation.s: Extra inputs are not"),
        (
            RUNTIME + "parameters: {allocation: {ms: [9, 8]}}\n",
            "parameters: allocation.ms: the first number must not be larger",
        ),
        # types
        (GOOD.replace("[write-through, rio]", "rio"), "modes: Input should be a valid list"),
        (GOOD.replace("[write-through, rio]", "[[rio]]"), "modes.0: Input should be a valid string"),
        (GOOD.replace("quick", "{a: 1}"), "name: Input should be a valid string"),
        (GOOD + "seed: one\n", "seed: Input should be a valid integer"),
        (GOOD + "faults: [1]\n", "faults: Input should be a valid integer"),
        (GOOD + "limit_s: long\n", "limit_s: Input should be a valid number"),
        (GOOD + "machine: big\n", "machine: Input should be a valid dictionary"),
        (GOOD + "workload:\n", "workload: Input should be a valid dictionary"),
        (GOOD + "workload: {options: {a: [1]}}\n", "workload.options.a.str: Input should be a valid string"),
        (GOOD + "machine: {accelerator: xen}\n", "machine.accelerator: Input should be 'auto', 'kvm' or"),
        # ranges
        (GOOD.replace("quick", "Quick Run"), "name: String should match pattern"),
        (GOOD.replace("quick", '"a\\n"'), "name: String should match pattern"),
        (GOOD.replace("quick", "../../etc"), "name: String should match pattern"),
        (GOOD + "seed: -1\n", "seed: Input should be greater than or equal to 0"),
        (GOOD + f"seed: {2**63}\n", "seed: Input should be less than"),
        (GOOD + "crashes_per_cell: 0\n", "crashes_per_cell: Input should be greater than or equal to 1"),
        (GOOD + "faults: 101\n", "faults: Input should be less than or equal to 100"),
        (GOOD + "limit_s: 0\n", "limit_s: Input should be greater than 0"),
        (GOOD + "limit_s: .nan\n", "limit_s: Input should be"),
        (GOOD + "limit_s: .inf\n", "limit_s: Input should be less than"),
        (GOOD + "hang_s: -1\n", "hang_s: Input should be greater than 0"),
        (GOOD + "warmup_s: [1]\n", "warmup_s.1: Field required"),
        (GOOD + "warmup_s: [3, 1]\n", "spec: warmup_s: the first number must not be larger"),
        (
            GOOD + "recovery_reset_s: [0.4, 0]\n",
            "spec: recovery_reset_s: the first number must not be larger",
        ),
        (GOOD + "recovery_reset_s: [-1, 0]\n", "recovery_reset_s.0: Input should be greater than or equal"),
        (GOOD + "recovery_reset_s: true\n", "recovery_reset_s: Input should be a valid tuple"),
        (GOOD + "fresh_boot_share: 1.5\n", "fresh_boot_share: Input should be less than or equal to 1"),
        (GOOD + "crashes_per_cell: 5\nmax_trials_per_cell: 4\n", "spec: max_trials_per_cell is smaller than"),
        (GOOD + "machine: {memory_mib: 100}\n", "machine.memory_mib: memory of 104857600 bytes: want whole"),
        (GOOD + "machine: {disk_mib: 1}\n", "machine.disk_mib: Input should be greater than or equal to 32"),
        (GOOD + "machine: {save_memory: 7}\n", "machine.save_memory: Input should be a valid boolean"),
        (GOOD + "machine: {vcpus: 0}\n", "machine.vcpus: Input should be greater than or equal to 1"),
        (GOOD + 'workload: {path: "a\\0b"}\n', "workload.path: embedded null byte"),
        # no mapping, no YAML
        ("", "want a mapping of keys"),
        ("- name\n", "want a mapping of keys"),
        ("quick\n", "want a mapping of keys"),
        ("name: [\n", "not YAML: "),
        ("name: quick\n\tmodes: []\n", "not YAML: "),
        ("name: !!python/object:os.system x\n", "not YAML: could not determine a constructor"),
        ("? [a]\n: 1\n", "not YAML: "),
        ("seed: 2024-13-45\n", "not YAML: month must be in 1..12"),
        (f"seed: {'1' * 5000}\n", "not YAML: "),
        ("[" * 500, "not YAML: "),
        ("name: \0", "not YAML: "),
        (b"name: \xff\xfe", "not YAML: 'utf-8' codec can't decode"),
    ],
)
def test_bad_input_is_refused_in_one_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert refusal(path).startswith(says)


def test_a_spec_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.yaml").startswith("No such file or directory; see harness/specs/")
    assert refusal(tmp_path).startswith("Is a directory; ")


def test_a_spec_cannot_be_changed_after_it_was_read() -> None:
    spec = CampaignSpec(name="a", modes=["rio"], fault_classes=["kernel_text"])
    with pytest.raises(ValueError, match="frozen"):
        spec.seed = 2


@pytest.mark.parametrize("other", ["accelerator: kvm", "vcpus: 2"])
def test_only_one_emulated_processor_counts_its_instructions(tmp_path: Path, other: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(GOOD + "machine: {icount: true}\n")
    assert load_spec(path).machine.icount
    path.write_text(GOOD + f"machine: {{icount: true, {other}}}\n")
    assert "icount: needs one emulated processor" in refusal(path)
