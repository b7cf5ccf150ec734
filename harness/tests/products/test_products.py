# SPDX-License-Identifier: Apache-2.0
"""Content keys, the manifest and its error lines, on a small checkout with the real one's folders."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from riobed.errors import EnvironmentFault, RiobedError, UsageError
from riobed.products import KernelSpec, stages
from riobed.products.__main__ import main
from riobed.products.manifest import load_manifest, series_commit, write_manifest

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
    write_manifest(checkout)
    return checkout


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


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
def test_an_input_changes_its_stage_and_those_after_it(checkout: Path, name: str, rebuilt: set[str]) -> None:
    before = stages.keys(checkout)
    with (checkout / name).open("a") as file:
        file.write("# changed\n")
    assert {stage for stage, key in stages.keys(checkout).items() if key != before[stage]} == rebuilt


@pytest.mark.parametrize("name", [
    *(f"harness/guest/riorecover/{name}" for name in ("README.md", "main.o", "program", "tests/test_it.py")),
    "injectors/riobed_inject/riobed_inject.mod.c", "injectors/riobed_inject/Module.symvers",
    "guest-kernel-patches/0003-not-in-the-series.patch", "guest-kernel-patches/README.md",
    "workloads/memtest/main.c",
])  # fmt: skip
def test_what_is_no_input_changes_no_key(checkout: Path, name: str) -> None:
    before = stages.keys(checkout)
    write(checkout / name, "\x7fELF, compiled" if name.endswith("program") else "anything")
    assert stages.keys(checkout) == before


def test_names_executable_bits_and_link_targets_count(checkout: Path) -> None:
    init, link = checkout / "harness/guest/stage0/init", checkout / "harness/guest/stage0/link"
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: init.chmod(0o755),
        lambda: init.rename(init.with_name("init2")),
        lambda: link.symlink_to("init2"),
        lambda: (link.unlink(), link.symlink_to("elsewhere")),
    ]
    found = [(change(), stages.keys(checkout))[1] for change in changes]
    assert len({keys["image"] for keys in found}) == len(changes)
    assert len({keys["kernel"] for keys in found}) == 1


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


@pytest.mark.parametrize(
    ("gone", "pattern"),
    [
        ("guest-kernel-patches/0002-two.patch", r"names 0002-two\.patch, which is not there"),
        ("injectors", "injectors is missing"),
    ],
)
def test_a_missing_source_is_named(checkout: Path, gone: str, pattern: str) -> None:
    (checkout / gone).rename(checkout / "elsewhere")
    with pytest.raises(EnvironmentFault, match=pattern):
        stages.keys(checkout)


def test_series_commit_follows_content_and_order(checkout: Path) -> None:
    series = checkout / stages.SERIES
    before = series_commit(series)
    write(series, "0002-two.patch\n0001-one.patch\n")
    swapped = series_commit(series)
    write(series, "0001-one.patch\n\n0002-two.patch\n")
    assert swapped != before == series_commit(series)


def test_export_copies_the_inputs_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    (checkout / "harness/guest/stage0/init").chmod(0o755)
    write(checkout / "harness/guest/riorecover/main.o", "stale")
    stages.export("image", stages.keys(checkout)["image"], tmp_path / "copy", checkout)
    copy = tmp_path / "copy"
    copied = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file())
    assert copied == list(stages.inputs("image", checkout))
    assert (copy / "harness/guest/stage0/init").stat().st_mode & 0o111


def test_export_refuses_sources_that_changed_since_the_key(checkout: Path, tmp_path: Path) -> None:
    key = stages.keys(checkout)["kernel"]
    write(checkout / "guest-kernel-patches/0001-one.patch", "other\n")
    with pytest.raises(EnvironmentFault, match="changed during the set-up"):
        stages.export("kernel", key, tmp_path / "copy", checkout)


def test_the_manifest_names_products_that_are_there(ready: Path) -> None:
    manifest = load_manifest(ready)
    assert manifest.kernel.build_id == "1f"
    assert manifest.kernel.series_commit == series_commit(ready / stages.SERIES)
    assert manifest.kernel.tree.is_relative_to(manifest.toolchain.root)
    for part in (manifest.toolchain, manifest.kernel, manifest.image):
        assert part.files()
        assert all(path.is_absolute() and path.exists() for path in part.files())


def test_the_manifest_is_written_only_when_it_changes(ready: Path) -> None:
    assert write_manifest(ready) is False
    manifest_file(ready).write_text("{}")
    assert write_manifest(ready) is True


def test_no_manifest_without_all_products(ready: Path) -> None:
    found = stages.keys(ready)
    (stages.product_dir("image", found["image"]) / "recovery.cpio").unlink()
    with pytest.raises(EnvironmentFault, match="not complete: run make setup"):
        write_manifest(ready)


def complaint(checkout: Path, pattern: str) -> None:
    """One line that matches the pattern and says what to do."""
    with pytest.raises(EnvironmentFault, match=rf"^[^\n]*{pattern}[^\n]*run make setup$"):
        load_manifest(checkout)


def manifest_file(checkout: Path) -> Path:
    return checkout / ".riobed/manifest.json"


PATCH = "guest-kernel-patches/0001-one.patch"
WRONG: list[tuple[Callable[[Path], object], str]] = [
    (lambda ready: manifest_file(ready).unlink(), "nothing is set up in"),
    (lambda ready: manifest_file(ready).write_text(""), "damaged"),
    (lambda ready: manifest_file(ready).write_text("[]"), "damaged"),
    (lambda ready: manifest_file(ready).write_text('{"schema": 1, '), "damaged"),
    (lambda ready: manifest_file(ready).write_text('{"schema": 2}'), "schema"),
    (lambda ready: write(ready / PATCH, "other\n"), "the sources of the kernel have changed"),
    (lambda ready: load_manifest(ready).image.recovery.unlink(), "recovery.cpio, which is gone"),
]


@pytest.mark.parametrize(("spoil", "pattern"), WRONG)
def test_a_manifest_that_cannot_be_used(ready: Path, spoil: Callable[[Path], object], pattern: str) -> None:
    spoil(ready)
    complaint(ready, pattern)


@pytest.mark.parametrize(("where", "value"), [
    ("kernel.key", "../../etc"), ("kernel.build_id", "no"), ("kernel.new", "1"), ("image.root", 7),
])  # fmt: skip
def test_a_manifest_with_a_wrong_field_is_damaged(ready: Path, where: str, value: object) -> None:
    content = json.loads(manifest_file(ready).read_text())
    part, field = where.split(".")
    content[part][field] = value
    manifest_file(ready).write_text(json.dumps(content))
    complaint(ready, rf"damaged \({where}")


def test_cache_dir_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RIOBED_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    places = {"HOME": "/somebody", "XDG_CACHE_HOME": "/caches", "RIOBED_CACHE": "/elsewhere"}
    found = [(monkeypatch.setenv(*each), stages.cache_dir())[1] for each in places.items()]
    assert list(map(str, found)) == ["/somebody/.cache/riobed", "/caches/riobed", "/elsewhere"]


def test_there_must_be_room_for_what_is_not_built(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, stage in stages.STAGES.items():
        monkeypatch.setitem(stages.STAGES, name, replace(stage, room=1 << 40))
    assert stages.prepare_cache(ready).is_dir()
    write(ready / "harness/guest/stage0/init", "other\n")
    with pytest.raises(EnvironmentFault, match=r"no room in .*: 1099511627776 MiB are needed, \d+ MiB"):
        stages.prepare_cache(ready)


def test_only_what_the_checkout_does_not_use_is_superseded(ready: Path) -> None:
    assert stages.superseded(ready) == []
    found = stages.keys(ready)
    write(ready / "guest-kernel-patches/0001-one.patch", "other\n")
    old = [stages.product_dir(name, found[name]) for name in ("kernel", "image")]
    # prune removes folders.
    old += [stages.cache_dir() / stages.GUESTS, stages.stores_dir(), stages.verified_dir()]
    for folder in old[-3:]:
        folder.mkdir()
        (folder / "file").touch()
    assert stages.superseded(ready) == sorted([*old, stages.kernel_tree(found)])


def test_the_command_prints_keys_of_the_real_checkout() -> None:
    """With nothing on the path but the sources, as the playbook calls it."""
    path = f"{stages.CHECKOUT / 'harness'}:{stages.CHECKOUT / 'results'}"
    command = [sys.executable, "-m", "riobed.products", "keys", "--json"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True)
    printed = json.loads(done.stdout)
    assert {name: stage["key"] for name, stage in printed["stages"].items()} == stages.keys()
    assert printed["cache"] == str(stages.cache_dir())


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["export", "kernel", "0" * 16, str(tmp_path / "copy")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("riobed: the sources of the kernel changed") and said.count("\n") == 1


@pytest.fixture
def own(checkout: Path) -> Path:
    """A folder beside the checkout with a fragment and a series of one patch."""
    write(checkout / stages.FRAGMENTS / "shipped.config", "CONFIG_C=y\n")
    write(checkout.parent / "own/mine.config", "CONFIG_B=y\n")
    write(checkout.parent / "own/series", "one.patch\n")
    write(checkout.parent / "own/one.patch", "other\n")
    return checkout.parent / "own"


def test_kernels_are_kept_side_by_side_under_keys_of_what_they_are_made_of(checkout: Path, own: Path) -> None:
    mine, series = (KernelSpec(config=("mine.config",)), KernelSpec(series=Path()))
    both = [KernelSpec(config=("shipped", "mine.config")), KernelSpec(config=("mine.config", "shipped"))]
    kernels = [None, KernelSpec(config=("shipped",)), *(each.beside(own) for each in (mine, *both, series))]
    for stage in ("kernel", "image"):
        assert len({stages.key_of(stage, checkout, kernel) for kernel in kernels}) == len(kernels)
    assert len({stages.key_of("base", checkout, kernel) for kernel in kernels}) == 1
    assert stages.keys(checkout, KernelSpec()) == stages.keys(checkout)
    first = stages.key_of("kernel", checkout, kernels[2])
    write(own / "mine.config", "CONFIG_B=m\n")
    assert stages.key_of("kernel", checkout, mine.beside(own)) != first
    # A store keeps the text, so a replay runs on the kernel of the trial.
    stored = KernelSpec.model_validate_json(kernels[2].model_dump_json())
    assert stages.key_of("kernel", checkout, stored) == first


def test_an_own_series_has_its_patches_and_not_our_options(checkout: Path, own: Path, tmp_path: Path) -> None:
    write(checkout / stages.CONFIGS / "rio.config", "CONFIG_RIO_CACHE=y\n")
    kernel = KernelSpec(series=Path(), config=("shipped", "mine.config")).beside(own)
    key = stages.key_of("kernel", checkout, kernel)
    stages.export("kernel", key, tmp_path / "copy", checkout, kernel)
    folder = tmp_path / "copy/guest-kernel-patches"
    assert (folder / "series").read_text() == "one.patch\n"
    assert sorted(path.name for path in folder.glob("*.patch")) == ["one.patch"]
    fragments = {"00-shipped.config": "CONFIG_C=y\n", "01-mine.config": "CONFIG_B=y\n"}
    configs = fragments | {"base.config": "CONFIG_A=y\n", "rio.config": ""}
    assert {path.name: path.read_text() for path in (folder / "configs").iterdir()} == configs


@pytest.mark.parametrize(
    ("kernel", "pattern"),
    [
        (KernelSpec(config=("harden",)), "no shipped fragment 'harden'; there are: shipped"),
        (KernelSpec(config=("x.config",)), "x.config: No such file"),
        (KernelSpec(series=Path("/nowhere")), "/nowhere/series is missing"),
    ],
)
def test_what_a_kernel_names_is_missing(checkout: Path, own: Path, kernel: KernelSpec, pattern: str) -> None:
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
    parts = {"bzimage": "boot/vmlinuz", "vmlinux": "boot/vmlinux", "modules": "modules"}
    kernel = KernelSpec.model_validate(parts).beside(tmp_path)
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
