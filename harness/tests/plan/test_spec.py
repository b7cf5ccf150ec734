# SPDX-License-Identifier: Apache-2.0
"""A spec is read whole or refused in one line that names the file and the key; it is stored and read back."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness_builders import spec
from pydantic import ValidationError
from riobed.bench import load_bench
from riobed.errors import UsageError
from riobed.faults import CLASSES, SiteFilter
from riobed.guest import all_modes
from riobed.guest.workload.description import load_workload
from riobed.plan import CampaignSpec, comparable, load_spec, spec_data, stored_spec
from riobed.products import CHECKOUT, Fragment

FOLDER = Path(__file__).parents[2] / "specs"
GOOD = "name: quick\nmodes: [write-through, rio]\nfault_classes: [kernel_text]\n"
RUNTIME = GOOD.replace("kernel_text", "allocation")
LINES = GOOD + "restart: power-lines\nmachine: {nvdimm_mib: 64, "
PLANT = GOOD + "controls: {planted: 1}\nparameters: {planted: {kinds: "
SPECS = sorted(path for path in FOLDER.rglob("*.yaml") if path.name != "modes.yaml")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a spec, in a folder of its own."""
    (tmp_path / "specs").mkdir()
    return tmp_path / "specs" / "s.yaml"


def loaded(path: Path, text: str) -> CampaignSpec:
    path.write_text(text)
    return load_spec(path)


def refusal(path: Path) -> str:
    """The one line after "spec FILE: "."""
    with pytest.raises(UsageError) as caught:
        load_spec(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value) and str(caught.value).startswith(f"spec {path}: ")
    return str(caught.value).removeprefix(f"spec {path}: ")


def test_a_short_spec_and_its_defaults(path: Path) -> None:
    spec = loaded(path, GOOD)
    assert (spec.name, spec.modes, spec.fault_classes) == ("quick", ["write-through", "rio"], ["kernel_text"])
    assert (spec.seed, spec.crashes_per_cell, spec.max_trials_per_cell, spec.faults) == (1, 1, 100, 20)
    assert (spec.limit_s, spec.hang_s, spec.warmup_s, spec.recovery_reset_s) == (600, 20, (1, 4), None)
    assert (spec.fresh_boot_share, spec.restore_check_share, spec.quiet_s) == (0, 0, None)
    assert (spec.machine.memory_mib, spec.machine.disk_mib, spec.machine.vcpus) == (512, 128, 1)
    assert (spec.machine.accelerator, spec.machine.save_memory, spec.sites) == ("auto", False, SiteFilter())


@pytest.mark.parametrize("given", ["../load", "/load"])
def test_the_workload_is_found_from_the_folder_of_the_spec(path: Path, given: str) -> None:
    spec = loaded(path, f"{GOOD}workload: {{path: {given}, options: {{twins: 3, kind: fast}}}}\n")
    assert spec.workload.path == (Path("/load") if given == "/load" else path.parents[1] / "load")
    assert spec.workload.options == {"twins": 3, "kind": "fast"}


def test_the_list_of_functions_is_found_from_the_folder_of_the_spec(path: Path) -> None:
    (path.parents[1] / "executed").write_text("vfs_read\next4_sync_file\n")
    sites = loaded(path, GOOD + "sites: {subsystems: [fs, mm/], functions_file: ../executed}\n").sites
    assert (sites.subsystems, sites.functions_listed) == (("fs", "mm/"), ("ext4_sync_file", "vfs_read"))


@pytest.mark.parametrize(
    ("classes", "can_plant", "controls"),
    [
        ("kernel_text", True, {"none": 0.1, "planted": 0.1}),
        ("kernel_text", False, {"none": 0.1}),
        ("kernel_text, none", True, {"planted": 0.1}),
    ],
)
def test_controls_by_default(path: Path, classes: str, can_plant: bool, controls: dict[str, float]) -> None:
    text = GOOD.replace("kernel_text", classes) + "crashes_per_cell: 25\nmax_trials_per_cell: 90\n"
    spec = loaded(path, text).with_controls(can_plant)
    assert spec.controls == controls
    assert spec.classes == [*classes.split(", "), *controls]
    assert {spec.crashes_wanted(name) for name in controls} == {3}
    assert {spec.trials_allowed(name) for name in controls} == {9}
    assert (spec.crashes_wanted("kernel_text"), spec.trials_allowed("kernel_text")) == (25, 90)


def test_controls_may_be_left_out_on_purpose(path: Path) -> None:
    assert loaded(path, GOOD + "controls: {}\n").with_controls(True).classes == ["kernel_text"]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_the_specs_of_the_repository_are_valid(path: Path) -> None:
    if "workloads:" in path.read_text():
        workloads = [*load_bench(path).workloads.values()]
    else:
        workload = load_spec(path).workload
        workloads = [workload, *workload.beside]
    for each in workloads:
        assert each.options.keys() <= load_workload(each.path).options.keys()


def test_a_spec_may_be_like_another_one(path: Path) -> None:
    base = loaded(path, GOOD + "seed: 7\nlimit_s: 30\nquiet_s: 3\nfaults: {kernel_text: 4}\n")
    other = path.with_name("other.yaml")
    spec = loaded(other, f"like: {path.name}\nname: other\nquiet_s:\nfaults: {{kernel_text: 5}}\n")
    assert (spec.quiet_s, spec.faults) == (None, {"kernel_text": 5})
    assert spec == base.model_copy(update={"name": "other", "quiet_s": None, "faults": spec.faults})
    # What is said of a class that it has not is left out.
    base = loaded(path, GOOD + "faults: {kernel_text: 4}\nparameters: {planted: {kinds: [block]}}\n"
                  "controls: {planted: 1}\n")  # fmt: skip
    spec = loaded(other, f"like: {path.name}\nfault_classes: [allocation]\ncontrols: {{none: 1}}\n")
    assert (base.faults, spec.faults, spec.parameters) == ({"kernel_text": 4}, {}, {})


@pytest.mark.parametrize(
    ("like", "wrong"),
    [
        ("none.yaml", "No such file or directory"),
        ("../specs/spec.yaml", "like: want the name of a spec in the same folder"),
        ("[a]", "like: want the name of a spec in the same folder"),
        ("third.yaml", "like: third.yaml is like spec.yaml itself; name that one"),
    ],
)
def test_what_a_spec_cannot_be_like(path: Path, like: str, wrong: str) -> None:
    path.with_name("third.yaml").write_text("like: spec.yaml\n")
    other = path.with_name("other.yaml")
    other.write_text(f"like: {like}\n")
    with pytest.raises(UsageError, match=re.escape(wrong)):
        load_spec(other)


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


@pytest.fixture
def own(path: Path) -> Path:
    """Of the modes of that file; their fragment is beside it."""
    (path.parents[1] / "my.yaml").write_text(OWN)
    (path.parents[1] / "fast.config").write_text("CONFIG_FAST=y\n")
    return path.parents[1] / "my.yaml"


def test_own_modes_are_kept_with_the_campaign(path: Path, own: Path) -> None:
    spec = loaded(path, WITH_OWN)
    assert set(spec.own_modes) == {"mine", "inline"}
    mine = spec.mode("mine")
    assert mine.filesystem == "xfs" and mine.kernel
    assert mine.kernel.config == (Fragment(name="fast", text="CONFIG_FAST=y\n"),)
    own.unlink()
    own.with_name("fast.config").unlink()
    stored = stored_spec("test", text_of(spec))
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
        ("{inline: {", "{inline: {like: below, ", "'below'; there are: write-through, .*, mine, unused$"),
        ("{inline: {", "{inline: {like: inline, ", "'inline'; there are"),
        ("{inline: {", "{inline: {like: [rio], ", "there are"),
        ("machine:", "modes: [rio]\nmachine:", "twice"),
    ],
)
def test_own_modes_that_are_wrong(path: Path, own: Path, old: str, new: str, word: str) -> None:
    assert old in WITH_OWN
    path.write_text(WITH_OWN.replace(old, new))
    assert re.search(word, refusal(path))


def test_own_modes_like_others_are_kept_whole(path: Path, own: Path) -> None:
    with own.open("a") as file:
        file.write("again: {like: mine, summary: again, sync_writes: false}\n")
    text = WITH_OWN.replace("[rio, mine, inline]", "[mine, again, last]").replace(
        "own_modes: {", "own_modes: {last: {like: again, summary: last, cache: none}, "
    )
    spec = loaded(path, text)
    mine, again, last = (spec.mode(name) for name in spec.modes)
    assert again == mine.model_copy(update={"summary": "again", "sync_writes": False})
    assert last == again.model_copy(update={"summary": "last", "cache": "none"})
    assert "like" not in text_of(spec)
    assert [stored_spec("test", text_of(spec)).mode(name) for name in spec.modes] == [mine, again, last]


def test_parameters_are_those_the_class_draws_by(path: Path) -> None:
    spec = loaded(path, RUNTIME + "parameters: {allocation: {ms: [7, 7]}}\n")
    drawn_by = dict(spec.fault_class("allocation").parameters or {})
    assert drawn_by == {"calls": (1000, 4000), "seconds": None, "ms": (7, 7)}
    assert loaded(path, RUNTIME).fault_class("allocation") is CLASSES["allocation"]


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("name", ["a", "9-b", "a" * 64], ["Quick", "a b", "a\n", "../etc", "-a", "a" * 65]),
        ("seed", [0, 2**63 - 1], [-1, 2**63, "one"]),
        ("crashes_per_cell", [1, 100], [0, 101]),
        ("max_trials_per_cell", [1], [0]),
        ("faults", [1, 100], [0, 101, [1]]),
        ("limit_s", [0.1, 86400], [0, 86401, math.inf, math.nan]),
        ("hang_s", [0.1, 86400], [0, 86401]),
        ("ask_s", [None, 0.1, 20], [0, 20.1]),
        ("quiet_s", [None, 0.1], [0]),
        ("survivor_steps", [None, 1, 1_000_000], [0, 1_000_001, 1.5]),
        ("warmup_s", [[1, 1], [1, 3]], [[1], [3, 1], [0, 1]]),
        ("recovery_reset_s", [None, [0, 0], [0, 86400]], [[0.4, 0], [-1, 0], [0, 86401], True]),
        ("restart", ["reset", "power"], ["parked", "power-lines", "", None]),
        ("fresh_boot_share", [0, 1], [-0.1, 1.5]),
        ("restore_check_share", [0, 1], [-0.1, 1.5]),
        ("controls", [{}, {"none": 0, "planted": 100}], [{"none": -1}, {"none": 101}, {"control": 1}]),
        ("modes", [["rio", "delayed"]], [[], ["rio", "rio"], "rio", [["rio"]]]),
        ("fault_classes", [["kernel_text", "none"]], [[], ["none", "none"]]),
        (
            "machine",
            [{"disk_mib": 32}, {"icount": True}, {"nvdimm_mib": 0}, {"nvdimm_mib": 16}],
            [{"disk_mib": 1}, {"memory_mib": 100}, {"vcpus": 0}, {"nvdimm_mib": 14}, {"nvdimm_mib": 65}],
        ),
        ("workload", [{"options": {"a": 1}}], [None, {"options": {"a": [1]}}, {"folder": "x"}]),
        ("sites", [{"subsystems": ["mm"]}], [{"subsystems": []}, {"subsystems": ["/mm"]}]),
    ],
)
def test_the_range_of_a_key(field: str, good: list[Any], bad: list[Any]) -> None:
    for value in good:
        spec(**{field: value})
    for value in bad:
        with pytest.raises(ValidationError) as caught:
            spec(**{field: value})
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD.replace("rio", "ryo"), f"modes: unknown cache mode 'ryo'; there are: {', '.join(all_modes())}"),
        (GOOD.replace("l_text", "l"), "fault_classes: unknown fault class 'kernel'; there are: kernel_text"),
        (GOOD + "crashes: 3\n", "crashes: Extra inputs are not permitted"),
        (GOOD + "machine: {ram: 3}\n", "machine.ram: Extra inputs are not permitted"),
        (
            GOOD + "machine: {throttle: fast}\n",
            "machine.throttle: unknown disk model 'fast'; there are: disk-1996",
        ),
        (GOOD + '"two\\nlines": 1\n', "two lines: Extra inputs are not permitted"),
        (GOOD + "1: 2\n", "1: Keys should be strings"),
        (GOOD.replace("name: quick\n", ""), "name: Field required"),
        (GOOD + "crashes_per_cell: 5\nmax_trials_per_cell: 4\n", "spec: max_trials_per_cell is smaller than"),
        (GOOD + "quiet_s: 3\nsurvivor_steps: 9\n", "spec: survivor_steps: quiet_s ends a run by time; leave"),
        (GOOD.replace("text]", "text, none]") + "controls: {none: 1}\n", "spec: controls: none is one of"),
        (GOOD + "sites: {functions_file: no/such}\n", "sites.functions_file "),
        (GOOD + 'sites: {functions_file: "a\\0b"}\n', "sites.functions_file "),
        (GOOD + 'workload: {path: "a\\0b"}\n', "workload.path: "),
        (RUNTIME + "parameters: {heap: {}}\n", "parameters: unknown fault class 'heap'; there are: "),
        (RUNTIME + "parameters: {kernel_stack: {}}\n", "parameters: kernel_stack: this fault class has no"),
        (RUNTIME + "parameters: {copy_overrun: {}}\n", "spec: parameters: copy_overrun is none of the"),
        (RUNTIME + "parameters: {allocation: 3}\n", "parameters.allocation: Input should be a valid dict"),
        (RUNTIME + "parameters: {allocation: {s: 1}}\n", "parameters: allocation.s: Extra inputs are not"),
        (RUNTIME + "parameters: {allocation: {ms: [9, 8]}}\n", "parameters: allocation.ms: the first number"),
        (PLANT + "[disk]}}\n", "parameters: planted.kinds.0: Input should be 'stray', 'entry', "),
        (PLANT + "[]}}\n", "parameters: planted.kinds: Tuple should have at least 1 item"),
        (PLANT + "[stray, entry]}}\n", "spec: parameters: planted.kinds: mode write-through has none of"),
        (
            PLANT.replace("[write-through, rio", "[dax") + "[canary]}}\nmachine: {nvdimm_mib: 64}\n",
            "spec: parameters: planted.kinds: canary needs one; set machine.canary_mib",
        ),
        (GOOD + "machine: {canary_mib: 2}\n", "machine: canary of 2097152 bytes: want an even number"),
        (GOOD + "machine: {icount: true, accelerator: kvm}\n", "machine: icount: needs one emulated"),
        (GOOD + "machine: {icount: true, vcpus: 2}\n", "machine: icount: needs one emulated processor"),
        (GOOD + "recovery_reset_s: [0, 1]\nparked: {}\n", "spec: parked: recovery_reset_s and icount need"),
        (GOOD + "machine: {icount: true}\nparked: {}\n", "spec: parked: recovery_reset_s and icount need"),
        (GOOD + "restart: power\nparked: {}\n", "spec: parked: a loss of power leaves no parked stage 0"),
        (GOOD + "restart: power-lines\n", "spec: restart: power-lines is about an NVDIMM; set"),
        (LINES + "accelerator: kvm}\n", "spec: restart: power-lines needs one emulated processor"),
        (LINES + "vcpus: 2}\n", "spec: restart: power-lines needs one emulated processor; change"),
        (LINES + "memory_mib: 512}\nparked: {}\n", "spec: parked: a loss of power leaves no parked stage 0"),
        (GOOD + "protocol: {claims: []}\n", "protocol: give it claims, or a tag that fixes what is"),
        (GOOD + "protocol: {tag: a, runs: 9}\n", "protocol: runs: it is about claims, and there are none"),
        (GOOD + "protocol: {claims: [{mode: rio, than: rio}]}\n", "protocol.claims.0: rio is compared with"),
        (GOOD + "protocol: {claims: [{mode: rio, than: delayed}]}\n", "spec: protocol: 'delayed' is none"),
        ("", "want a mapping of keys"),
        ("- name\n", "want a mapping of keys"),
        ("name: [\n", "not YAML: "),
    ],
)
def test_bad_input_is_refused_in_one_line(path: Path, text: str, says: str) -> None:
    path.write_text(text)
    assert refusal(path).startswith(says)


def test_a_spec_that_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.yaml").startswith("No such file or directory; see harness/specs/")
    assert refusal(tmp_path).startswith("Is a directory; ")


LISTED = {"functions_file": "/some/list", "functions_listed": ["vfs_read"]}


def text_of(spec: CampaignSpec) -> str:
    return yaml.safe_dump(spec_data(spec))


@pytest.mark.parametrize("change", [
    {"seed": 9}, {"crashes_per_cell": 3}, {"modes": ["delayed"]}, {"faults": 4}, {"quiet_s": 5},
    {"survivor_steps": 5}, {"workload": {"path": "/srv/otherload"}}, {"workload": {"options": {"twins": 1}}},
    {"machine": {"memory_mib": 1024}}, {"controls": {"none": 1}}, {"sites": LISTED},
    {"sites": {"subsystems": ["mm"]}},
    {"modes": ["rio", "delayed"], "protocol": {"claims": [{"mode": "rio", "than": "delayed"}]}},
])  # fmt: skip
def test_another_campaign(change: dict[str, Any]) -> None:
    assert comparable(text_of(spec(**change))) != comparable(text_of(spec()))


def test_the_same_campaign_wherever_its_files_lie() -> None:
    beside = [{"path": CHECKOUT / "workloads/andrew"}]
    here = spec(sites=LISTED, workload={"beside": beside})
    stored = spec_data(here)["workload"]
    assert [each["path"] for each in (stored, *stored["beside"])] == ["workloads/memtest", "workloads/andrew"]
    load = {"path": "/srv/memtest", "beside": [{"path": "/srv/andrew"}]}
    moved = {"sites": LISTED | {"functions_file": "/other/list"}, "workload": load}
    there = spec(**moved, modes_file="/srv/modes.yaml")
    assert comparable(text_of(there)) == comparable(text_of(here))


def test_a_campaign_of_an_older_riobed_is_the_same() -> None:
    data = spec_data(spec())
    for key in (
        "own_modes",
        "sites",
        "parameters",
        "controls",
        "quiet_s",
        "survivor_steps",
        "ask_s",
        "restore_check_share",
        "boot_production",
        "cache_shares",
        "protocol",
    ):
        del data[key]
    for key in ("icount", "nvdimm_mib", "canary_mib", "throttle"):
        del data["machine"][key]
    assert comparable(yaml.safe_dump(data)) == comparable(text_of(spec()))


def test_a_spec_of_another_riobed_is_refused() -> None:
    with pytest.raises(UsageError, match=r"its spec is of another riobed: new: Extra inputs"):
        stored_spec("test", yaml.safe_dump(spec_data(spec()) | {"new": 1}))
    with pytest.raises(UsageError, match="not YAML"):
        stored_spec("test", "{")


@pytest.mark.parametrize("path", [CHECKOUT / "workloads/cp_rm", Path("/srv/load")])
def test_a_stored_spec_finds_its_workload_again(path: Path) -> None:
    asked = spec(workload={"path": path, "beside": [{"path": path}]})
    assert stored_spec("test", text_of(asked)).workload.folders == [path, path]


EXPOSED = GOOD + "machine: {memory_mib: 768, disk_mib: 768}\n"


def test_each_share_of_ram_is_an_arm_of_each_mode(path: Path) -> None:
    spec = loaded(path, f"{EXPOSED}cache_shares: [0.03, 0.6]\n")
    arms = ["write-through-3pct", "write-through-60pct", "rio-3pct", "rio-60pct"]
    assert spec.modes == arms and spec.mode("rio-60pct").cache_share == 0.6
    rio, plain = spec.mode("rio-3pct"), all_modes()["rio"]
    assert rio.model_copy(update={"cache_share": None, "summary": plain.summary}) == plain
    # What is stored is read back, and is not expanded again.
    assert stored_spec("quick", yaml.safe_dump(spec_data(spec))).modes == arms


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            "machine: {disk_mib: 4096}\ncache_shares: [0.7]\n",
            r"cache_share 0.7 is 358 MiB .*memory_mib",
        ),
        ("cache_shares: [0.3]\n", r"cache_share 0.3 is 154 MiB .*disk_mib"),
        ("cache_shares: [0.005]\n", "cache_shares.0: "),
        ("cache_shares: [0.025]\n", "cache_shares.0: want whole per cent"),
        ("faults: {pointer: 3}\n", "faults: pointer is none of the fault_classes"),
        ("faults: {kernel_text: 0}\n", "faults.by class.kernel_text: .*greater than or equal to 1"),
    ],
)
def test_shares_and_doses_that_cannot_be(path: Path, more: str, says: str) -> None:
    path.write_text(GOOD + more)
    assert re.search(says, refusal(path))


def test_a_class_may_have_a_dose_of_its_own(path: Path) -> None:
    spec = loaded(path, GOOD.replace("[kernel_text]", "[kernel_text, pointer]") + "faults: {pointer: 3}\n")
    assert [spec.fault_count(name) for name in spec.fault_classes] == [20, 3]
    assert loaded(path, GOOD + "faults: 7\n").fault_count("kernel_text") == 7
