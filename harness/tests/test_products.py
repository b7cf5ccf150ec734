# SPDX-License-Identifier: Apache-2.0
"""Content keys, the manifest and its error lines, on a small checkout with the real one's folders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from riobed.errors import EnvironmentFault, RiobedError, UsageError
from riobed.products import KernelSpec, stages
from riobed.products import manifest as manifest_module
from riobed.products.__main__ import main

FILES = {
    stages.DEBIAN_ROOT: "#!/bin/sh\n",
    "playbooks/roles/toolchain/files/packages": "gcc\n",
    "playbooks/roles/kernel/files/build": "#!/bin/sh\n",
    "playbooks/roles/image/files/base/packages": "mount\n",
    "playbooks/roles/image/files/image/build": "#!/bin/sh\n",
    "guest-kernel-patches/series": "# order\n0001-one.patch\n0002-two.patch # second\n",
    "guest-kernel-patches/0001-one.patch": "one\n",
    "guest-kernel-patches/0002-two.patch": "two\n",
    "guest-kernel-patches/configs/base.config": "CONFIG_A=y\n",
    "harness/guest/stage0/init": "#!/bin/sh\n",
    "harness/guest/riorecover/main.c": "int main(void) {}\n",
    "injectors/riobed_inject/main.c": "/* module */\n",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIOBED_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "checkout"
    for name, text in FILES.items():
        write(folder / name, text)
    return folder


@pytest.fixture
def ready(checkout: Path) -> Path:
    """A checkout whose products are all there, and its manifest."""
    found = stages.keys(checkout)
    for name, stage in stages.STAGES.items():
        for product in stage.products:
            write(stages.product_dir(name, found[name]) / product, "1f\n")
    stages.product_dir("toolchain", found["toolchain"]).joinpath("root").unlink()
    stages.kernel_tree(found).mkdir(parents=True)
    manifest_module.write_manifest(checkout)
    return checkout


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def changed_stages(checkout: Path, before: dict[str, str]) -> set[str]:
    now = stages.keys(checkout)
    return {stage for stage in now if now[stage] != before[stage]}


@pytest.mark.parametrize(
    ("name", "rebuilt"),
    [
        (stages.DEBIAN_ROOT, {"toolchain", "kernel", "base", "image"}),
        ("playbooks/roles/toolchain/files/packages", {"toolchain", "kernel", "image"}),
        ("playbooks/roles/kernel/files/build", {"kernel", "image"}),
        ("guest-kernel-patches/series", {"kernel", "image"}),
        ("guest-kernel-patches/0002-two.patch", {"kernel", "image"}),
        ("guest-kernel-patches/configs/base.config", {"kernel", "image"}),
        ("playbooks/roles/image/files/base/packages", {"base", "image"}),
        ("playbooks/roles/image/files/image/build", {"image"}),
        ("harness/guest/stage0/init", {"image"}),
        ("harness/guest/riorecover/main.c", {"image"}),
        ("injectors/riobed_inject/main.c", {"image"}),
    ],
)
def test_a_changed_input_changes_its_stage_and_those_after_it(
    checkout: Path, name: str, rebuilt: set[str]
) -> None:
    before = stages.keys(checkout)
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert changed_stages(checkout, before) == rebuilt


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("harness/guest/riorecover/README.md", b"words\n"),
        ("harness/guest/riorecover/main.o", b"anything"),
        ("harness/guest/riorecover/riorecover", b"\x7fELF, compiled"),
        ("harness/guest/riorecover/tests/test_it.py", b"test\n"),
        ("injectors/riobed_inject/riobed_inject.mod.c", b"generated\n"),
        ("injectors/riobed_inject/Module.symvers", b"generated\n"),
        ("guest-kernel-patches/0003-not-in-the-series.patch", b"three\n"),
        ("guest-kernel-patches/README.md", b"words\n"),
        ("workloads/memtest/main.c", b"int x;\n"),
    ],
)
def test_what_is_no_input_changes_no_key(checkout: Path, name: str, content: bytes) -> None:
    before = stages.keys(checkout)
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_bytes(content)
    assert changed_stages(checkout, before) == set()


def test_names_executable_bits_and_link_targets_count(checkout: Path) -> None:
    init = checkout / "harness/guest/stage0/init"
    first = stages.keys(checkout)
    init.chmod(0o755)
    second = stages.keys(checkout)
    init.rename(init.with_name("init2"))
    third = stages.keys(checkout)
    link = init.with_name("link")
    link.symlink_to("init2")
    fourth = stages.keys(checkout)
    link.unlink()
    link.symlink_to("elsewhere")
    fifth = stages.keys(checkout)
    assert len({keys["image"] for keys in (first, second, third, fourth, fifth)}) == 5
    assert len({keys["kernel"] for keys in (first, second, third, fourth, fifth)}) == 1


def test_keys_do_not_depend_on_where_the_checkout_lies(checkout: Path, tmp_path: Path) -> None:
    before = stages.keys(checkout)
    moved = checkout.rename(tmp_path / "moved")
    assert stages.keys(moved) == before


def test_content_cannot_pass_for_another_file(checkout: Path) -> None:
    """Bytes moved from one input into its neighbour are another set of inputs."""
    folder = checkout / "guest-kernel-patches"
    write(folder / "0001-one.patch", "one\ntwo\n")
    write(folder / "0002-two.patch", "")
    joined = stages.keys(checkout)["kernel"]
    write(folder / "0001-one.patch", "one\n")
    write(folder / "0002-two.patch", "two\n")
    assert stages.keys(checkout)["kernel"] != joined


def test_a_patch_that_is_not_there_is_named(checkout: Path) -> None:
    (checkout / "guest-kernel-patches/0002-two.patch").unlink()
    with pytest.raises(EnvironmentFault, match=r"names 0002-two\.patch, which is not there"):
        stages.keys(checkout)


def test_a_missing_source_is_named(checkout: Path) -> None:
    (checkout / "injectors/riobed_inject/main.c").unlink()
    (checkout / "injectors/riobed_inject").rmdir()
    (checkout / "injectors").rmdir()
    with pytest.raises(EnvironmentFault, match="injectors is missing"):
        stages.keys(checkout)


def test_series_commit_follows_content_and_order(checkout: Path) -> None:
    series = checkout / stages.SERIES
    before = manifest_module.series_commit(series)
    write(series, "0002-two.patch\n0001-one.patch\n")
    swapped = manifest_module.series_commit(series)
    write(series, "0001-one.patch\n\n0002-two.patch\n")
    assert swapped != before == manifest_module.series_commit(series)


def test_export_copies_the_inputs_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    (checkout / "harness/guest/stage0/init").chmod(0o755)
    write(checkout / "harness/guest/riorecover/main.o", "stale")
    stages.export("image", stages.keys(checkout)["image"], tmp_path / "copy", checkout)
    copied = sorted(
        path.relative_to(tmp_path / "copy").as_posix()
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    )
    assert copied == list(stages.inputs("image", checkout))
    assert (tmp_path / "copy/harness/guest/stage0/init").stat().st_mode & 0o111


def test_export_refuses_sources_that_changed_since_the_key(checkout: Path, tmp_path: Path) -> None:
    key = stages.keys(checkout)["kernel"]
    write(checkout / "guest-kernel-patches/0001-one.patch", "other\n")
    with pytest.raises(EnvironmentFault, match="changed during the set-up"):
        stages.export("kernel", key, tmp_path / "copy", checkout)


def test_the_manifest_names_products_that_are_there(ready: Path) -> None:
    manifest = manifest_module.load_manifest(ready)
    assert manifest.kernel.build_id == "1f"
    assert manifest.kernel.series_commit == manifest_module.series_commit(ready / stages.SERIES)
    assert manifest.kernel.tree.is_relative_to(manifest.toolchain.root)
    for part in (manifest.toolchain, manifest.kernel, manifest.image):
        assert part.files()
        assert all(path.is_absolute() and path.exists() for path in part.files())


def test_the_manifest_is_written_only_when_it_changes(ready: Path) -> None:
    assert manifest_module.write_manifest(ready) is False
    (ready / ".riobed/manifest.json").write_text("{}")
    assert manifest_module.write_manifest(ready) is True


def test_no_manifest_without_all_products(ready: Path) -> None:
    found = stages.keys(ready)
    (stages.product_dir("image", found["image"]) / "recovery.cpio").unlink()
    with pytest.raises(EnvironmentFault, match="not complete: run make setup"):
        manifest_module.write_manifest(ready)


def test_a_missing_manifest(checkout: Path) -> None:
    complaint(checkout, "nothing is set up in")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "damaged"),
        ('{"schema": 1, ', "damaged"),
        ("[]", "damaged"),
        ('{"schema": 2}', "schema"),
    ],
)
def test_a_damaged_manifest(ready: Path, text: str, reason: str) -> None:
    (ready / ".riobed/manifest.json").write_text(text)
    complaint(ready, reason)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("kernel", "key", "../../etc"),
        ("kernel", "build_id", "not hex"),
        ("kernel", "surprise", "1"),
        ("image", "root", 7),
    ],
)
def test_a_manifest_with_a_wrong_field_is_damaged(ready: Path, part: str, field: str, value: object) -> None:
    path = ready / ".riobed/manifest.json"
    content = json.loads(path.read_text())
    content[part][field] = value
    path.write_text(json.dumps(content))
    complaint(ready, rf"damaged \({part}\.{field}")


def test_a_stale_manifest_names_the_stage(ready: Path) -> None:
    write(ready / "guest-kernel-patches/0001-one.patch", "other\n")
    complaint(ready, "the sources of the kernel have changed")


def test_a_manifest_whose_product_is_gone(ready: Path) -> None:
    manifest_module.load_manifest(ready).image.recovery.unlink()
    complaint(ready, "recovery.cpio, which is gone")


def complaint(checkout: Path, pattern: str) -> None:
    """One line that matches the pattern and says what to do."""
    with pytest.raises(EnvironmentFault, match=pattern) as caught:
        manifest_module.load_manifest(checkout)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith("run make setup")


def test_cache_dir_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("RIOBED_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert stages.cache_dir() == Path("/home/somebody/.cache/riobed")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert stages.cache_dir() == Path("/caches/riobed")
    monkeypatch.setenv("RIOBED_CACHE", "/elsewhere")
    assert stages.cache_dir() == Path("/elsewhere")


def test_a_disk_too_small_is_refused_before_anything_is_built(
    ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_much = stages.Stage("image", ("kernel", "base"), stages.STAGES["image"].sources, ("x",), 1 << 40)
    monkeypatch.setitem(stages.STAGES, "image", too_much)
    with pytest.raises(EnvironmentFault, match=r"no room in .*: 1099511627776 MiB are needed, \d+ MiB"):
        stages.prepare_cache(ready)


def test_what_is_built_needs_no_room(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stage in stages.STAGES.items():
        huge = stages.Stage(stage.name, stage.after, stage.sources, stage.products, 1 << 40)
        monkeypatch.setitem(stages.STAGES, name, huge)
    assert stages.prepare_cache(ready).is_dir()


def test_only_what_the_checkout_does_not_use_is_superseded(ready: Path) -> None:
    assert stages.superseded(ready) == []
    found = stages.keys(ready)
    write(ready / "guest-kernel-patches/0001-one.patch", "other\n")
    assert stages.superseded(ready) == sorted(
        [
            stages.product_dir("kernel", found["kernel"]),
            stages.product_dir("image", found["image"]),
            stages.kernel_tree(found),
        ]
    )


def test_the_command_prints_keys_of_the_real_checkout() -> None:
    """With nothing on the path but the sources, as the playbook calls it."""
    path = f"{stages.CHECKOUT / 'harness'}:{stages.CHECKOUT / 'results'}"
    done = subprocess.run(
        [sys.executable, "-m", "riobed.products", "keys", "--json"],
        env=os.environ | {"PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    printed = json.loads(done.stdout)
    assert {name: stage["key"] for name, stage in printed["stages"].items()} == stages.keys()
    assert printed["cache"] == str(stages.cache_dir())


def test_the_command_says_in_one_line_what_is_wrong(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["export", "kernel", "0" * 16, str(tmp_path / "copy")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("riobed: the sources of the kernel changed")
    assert said.count("\n") == 1


@pytest.fixture
def own(checkout: Path) -> Path:
    """A folder beside the checkout with a fragment and a series of one patch."""
    write(checkout / stages.FRAGMENTS / "shipped.config", "CONFIG_C=y\n")
    write(checkout.parent / "own/mine.config", "CONFIG_B=y\n")
    write(checkout.parent / "own/series", "one.patch\n")
    write(checkout.parent / "own/one.patch", "other\n")
    return checkout.parent / "own"


def test_kernels_are_kept_side_by_side_under_keys_of_what_they_are_made_of(checkout: Path, own: Path) -> None:
    kernels = [
        None,
        KernelSpec(config=("shipped",)),
        KernelSpec(config=("mine.config",)).beside(own),
        KernelSpec(config=("shipped", "mine.config")).beside(own),
        KernelSpec(config=("mine.config", "shipped")).beside(own),
        KernelSpec(series=Path()).beside(own),
    ]
    for stage in ("kernel", "image"):
        assert len({stages.key_of(stage, checkout, kernel) for kernel in kernels}) == len(kernels)
    assert len({stages.key_of("base", checkout, kernel) for kernel in kernels}) == 1
    assert stages.keys(checkout, KernelSpec()) == stages.keys(checkout)
    mine = stages.key_of("kernel", checkout, kernels[2])
    write(own / "mine.config", "CONFIG_B=m\n")
    changed = KernelSpec(config=("mine.config",)).beside(own)
    assert stages.key_of("kernel", checkout, changed) != mine
    # A store keeps the text, so a replay runs on the kernel of the trial.
    stored = KernelSpec.model_validate_json(kernels[2].model_dump_json())
    assert stages.key_of("kernel", checkout, stored) == mine


def test_the_build_of_an_own_series_finds_its_patches_and_not_the_options_of_ours(
    checkout: Path, own: Path, tmp_path: Path
) -> None:
    write(checkout / stages.CONFIGS / "rio.config", "CONFIG_RIO=y\n")
    kernel = KernelSpec(series=Path(), config=("shipped", "mine.config")).beside(own)
    key = stages.key_of("kernel", checkout, kernel)
    stages.export("kernel", key, tmp_path / "copy", checkout, kernel)
    folder = tmp_path / "copy/guest-kernel-patches"
    assert (folder / "series").read_text() == "one.patch\n"
    assert sorted(path.name for path in folder.glob("*.patch")) == ["one.patch"]
    assert {path.name: path.read_text() for path in sorted((folder / "configs").iterdir())} == {
        "00-shipped.config": "CONFIG_C=y\n",
        "01-mine.config": "CONFIG_B=y\n",
        "base.config": "CONFIG_A=y\n",
        "rio.config": "",
    }


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        (KernelSpec(config=("harden",)), "no shipped fragment 'harden'; there are: shipped"),
        (KernelSpec(config=("x.config",)), "x.config: No such file"),
        (KernelSpec(series=Path("/nowhere")), "/nowhere/series is missing"),
    ],
)
def test_what_a_kernel_names_and_is_not_there(
    checkout: Path, own: Path, kernel: KernelSpec, pattern: str
) -> None:
    with pytest.raises(RiobedError, match=pattern):
        stages.keys(checkout, kernel.beside(own))


@pytest.mark.parametrize(
    "given",
    [{"bzimage": "a"}, {"bzimage": "a", "vmlinux": "b", "modules": "c", "config": ["d"]}, {"fragment": "x"}],
)
def test_a_kernel_is_built_here_or_ready(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KernelSpec.model_validate(given)


def test_a_ready_kernel_is_known_by_its_content(checkout: Path, tmp_path: Path) -> None:
    write(checkout / "playbooks/roles/ready_kernel/files/build", "#!/bin/sh\n")
    write(tmp_path / "boot/vmlinuz", "image")
    write(tmp_path / "boot/vmlinux", "elf")
    write(tmp_path / "src/headers/include/config/kernel.release", "6.12.1\n")
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/build").symlink_to("../src/headers")
    kernel = KernelSpec.model_validate(
        {"bzimage": "boot/vmlinuz", "vmlinux": "boot/vmlinux", "modules": "modules"}
    ).beside(tmp_path)
    key = stages.key_of("kernel", checkout, kernel)
    stages.export("kernel", key, tmp_path / "copy", checkout, kernel)
    ready = tmp_path / "copy/ready"
    assert (ready / "bzImage").read_text() == "image"
    assert (ready / "modules/build/include/config/kernel.release").read_text() == "6.12.1\n"
    assert not (tmp_path / "copy/guest-kernel-patches").exists()
    write(tmp_path / "boot/vmlinux", "other")
    assert stages.key_of("kernel", checkout, kernel) != key
    (tmp_path / "modules/build").unlink()
    with pytest.raises(UsageError, match="has no build"):
        stages.keys(checkout, kernel)
