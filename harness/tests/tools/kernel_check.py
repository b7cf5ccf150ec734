# SPDX-License-Identifier: Apache-2.0
"""Check the kernel series patch by patch: `make kernel-check`.

Each prefix of the series has to apply, to build without a warning, and to boot. From the patch on that adds
the mount option rio, it mounts with it. Each patch has to pass `checkpatch.pl --strict`, but for what
CHECKPATCH lists. All of it happens in the toolchain root, in one tree to which one patch after the other is
applied, so that a build compiles only what a patch touches. What was found good is noted with a hash of all
that it depends on: the command goes on where it was stopped, or where a patch has changed.

Debian's kernel source of the toolchain root is checked prefix by prefix. With `--also SUITE/PACKAGE` the
whole series has to apply to and build with that package, too, for example sid/linux-source-7.2.
"""

import hashlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from riobed.products import CHECKOUT, load_manifest

SERIES = CHECKOUT / "guest-kernel-patches"
FRAGMENTS = CHECKOUT / "playbooks/roles/kernel/files"
# Types of messages that stay, by a part of the patch's name ("" for all); the series' README has the reasons.
CHECKPATCH = {
    "": ("FILE_PATH_CHANGES", "MISSING_SIGN_OFF"),
    "ext4-add-the-rio-mount-option": ("CAMELCASE", "SPACING"),
    "no-writes-for-the-sake": ("BIT_MACRO",),
    "know-who-is-changing": ("MACRO_ARG_REUSE", "BRACES"),
    "close-the-cache": ("EXPORT_SYMBOL", "VSPRINTF_SPECIFIER_PX"),
    "tell-Rio-s-log": ("MACRO_ARG_REUSE", "AVOID_BUG", "COMPARISON_TO_NULL"),
    "blocks-that-an-open": ("AVOID_EXTERNS",),
    "tracepoints": ("OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"),
    "protection-by-checks": ("EMBEDDED_FILENAME", "SPACING", "VOLATILE"),
    "kprobes-let-a-module": ("AVOID_EXTERNS",),
}
_BOOT_S = 300
_BOOTED = "kernel-check: up"
_WITH_RIO = "kernel-check: with rio"
# The patch from which on a file system is mounted with rio.
_MOUNTS = "ext4-add-the-rio-mount-option"
_MKFS = "mke2fs -q -F -t ext4 -b 4096 -O ^has_journal,^metadata_csum,^uninit_bg,^orphan_file"
_PARAMETERS = "console=ttyS0 panic=-1 oops=panic no_timer_check rio.registry=4M@64M"
_COMPLAINT = re.compile(r"warning|error|\*\*\*", re.IGNORECASE)
_QEMU = ["qemu-system-x86_64", "-accel", "tcg", "-m", "256", "-display", "none", "-no-reboot"]
# What a prefix has to do: mount ext4, keep a file over an unmount, and power off.
_INIT = f"""#!/bin/busybox sh
/bin/busybox mkdir -p /dev /mnt
/bin/busybox mount -t devtmpfs devtmpfs /dev
{{ /bin/busybox mount -t ext4 -o rio,nodelalloc /dev/vda /mnt && echo "{_WITH_RIO}" ||
/bin/busybox mount -t ext4 /dev/vda /mnt; }} && /bin/busybox cp /bin/busybox /mnt/file &&
/bin/busybox umount /mnt && /bin/busybox mount -t ext4 /dev/vda /mnt &&
/bin/busybox cmp /bin/busybox /mnt/file && /bin/busybox umount /mnt && echo "{_BOOTED}"
/bin/busybox poweroff -f
"""


class Failed(Exception):
    """Something is wrong with the series, in one line."""


@dataclass(frozen=True)
class Tree:
    """One kernel source in the toolchain root; `place` is a folder of its own."""

    root: Path
    place: Path
    archive: str
    jobs: int

    @property
    def linux(self) -> Path:
        """The source."""
        return self.place / "linux"

    def inside(self, path: Path) -> str:
        """Return a path as the toolchain root sees it."""
        return f"/{path.relative_to(self.root)}"

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a shell script in the toolchain root, in the source."""
        inside = f"cd {self.inside(self.linux)} && {script}"
        environment = ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/"]
        argv = ["chroot", str(self.root), *environment, "/bin/sh", "-c", inside]
        return subprocess.run(argv, capture_output=True, text=True, errors="replace")


class Notes:
    """What was found good, by key, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._good: list[str] = json.loads(path.read_text()) if path.exists() else []

    def good(self, key: str) -> bool:
        """Whether this was found good before."""
        return key in self._good

    def add(self, key: str) -> None:
        """Note that this is good."""
        self._good.append(key)
        self._path.write_text(json.dumps(self._good))


def series() -> list[Path]:
    """Return the patches in order."""
    lines = (SERIES / "series").read_text().splitlines()
    return [SERIES / line for line in lines if line.strip() and not line.startswith("#")]


def key_of(archive: str, patches: Iterable[Path]) -> str:
    """Hash the source's name, the configuration and some patches."""
    digest = hashlib.sha256(archive.encode())
    for path in (*sorted((SERIES / "configs").glob("*.config")), Path(__file__), *patches):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def unpack(tree: Tree) -> None:
    """Make the source anew, without any patch."""
    shutil.rmtree(tree.linux, ignore_errors=True)
    tree.linux.mkdir(parents=True)
    if (done := tree.run(f"tar -xf {tree.archive} --strip-components=1")).returncode:
        raise Failed(f"{tree.archive}: {last_line(done.stderr)}")
    (tree.place / "applied").write_text("[]")


def apply_up_to(tree: Tree, patches: list[Path], number: int) -> None:
    """Apply the first `number` patches; start from a new source if others are applied."""
    wanted = [hashlib.sha256(patch.read_bytes()).hexdigest() for patch in patches[:number]]
    noted = tree.place / "applied"
    applied = json.loads(noted.read_text()) if noted.exists() else None
    if applied is None or applied != wanted[: len(applied)]:
        unpack(tree)
        applied = []
    for at in range(len(applied), number):
        shutil.copyfile(patches[at], tree.place / "patch")
        found = tree.run(
            f"patch -p1 --batch --forward --no-backup-if-mismatch -i {tree.inside(tree.place / 'patch')}"
        )
        if found.returncode:
            shutil.rmtree(tree.linux)
            noted.unlink()
            where = [line for line in found.stdout.splitlines() if "FAILED" in line or "can't find" in line]
            raise Failed(f"{patches[at].name} does not apply: {(where or ['?'])[0].strip()}")
        if "with fuzz" in found.stdout:
            typer.echo(f"  {patches[at].name} applies with fuzz")
        noted.write_text(json.dumps(wanted[: at + 1]))


def build(tree: Tree, name: str) -> None:
    """Configure and compile; Failed if the compiler has anything to say."""
    merged = subprocess.check_output([FRAGMENTS / "merge-fragments", SERIES / "configs"])
    (tree.place / "all.config").write_bytes(merged)
    config = tree.inside(tree.place / "all.config")
    script = f"make -s KCONFIG_ALLCONFIG={config} allnoconfig && make -s -j{tree.jobs} bzImage modules"
    done = tree.run(script)
    (tree.place / "build.log").write_text(done.stdout + done.stderr)
    said = [line for line in done.stderr.splitlines() if _COMPLAINT.search(line)]
    if done.returncode or said:
        raise Failed(f"{name}: {(said or [last_line(done.stderr)])[0]}; see {tree.place / 'build.log'}")


def boot(tree: Tree, name: str, wanted: str) -> None:
    """Boot the kernel that was built and let it use ext4; Failed unless it says `wanted` and gets through."""
    disk, initrd, console = (tree.place / each for each in ("disk", "initrd", "console.log"))
    staging = tree.place / "initramfs"
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "bin").mkdir(parents=True)
    (staging / "init").write_text(_INIT)
    (staging / "init").chmod(0o755)
    pack = "cp /bin/busybox {0}/bin/ && cd {0} && find . | cpio --quiet -o -H newc >{1}"
    made = tree.run(pack.format(tree.inside(staging), tree.inside(initrd)))
    made = made if made.returncode else tree.run(f"{_MKFS} {tree.inside(disk)} 32M")
    if made.returncode:
        raise Failed(f"{name}: {last_line(made.stderr)}")
    console.unlink(missing_ok=True)
    argv = [*_QEMU, "-kernel", str(tree.linux / "arch/x86/boot/bzImage"), "-initrd", str(initrd)]
    argv += ["-append", _PARAMETERS, "-serial", f"file:{console}"]
    argv += ["-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"]
    try:
        subprocess.run(argv, capture_output=True, timeout=_BOOT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name}: still runs after {_BOOT_S} s; see {console}") from None
    said = console.read_text(errors="replace") if console.exists() else ""
    bad = [line for line in said.splitlines() if re.search(r"WARNING|BUG|Oops|Kernel panic", line)]
    if bad or wanted not in said or _BOOTED not in said:
        raise Failed(f"{name}: does not boot: {(bad or [last_line(said)])[0].strip()}; see {console}")


def read_patch(tree: Tree, patch: Path) -> list[str]:
    """Return what checkpatch.pl --strict says and is not expected."""
    expected = {kind for word, kinds in CHECKPATCH.items() if word in patch.name for kind in kinds}
    shutil.copyfile(patch, tree.place / patch.name)
    options = f"--strict --no-summary --terse --show-types --ignore {','.join(sorted(expected))}"
    done = tree.run(f"scripts/checkpatch.pl {options} {tree.inside(tree.place / patch.name)}")
    (tree.place / patch.name).unlink()
    # Without Python's ply and git it says so on standard error, and checks all the rest.
    said = [line.rpartition(f"{patch.name}:")[2] for line in done.stdout.splitlines()]
    if done.returncode and not said:
        said = [last_line(done.stderr)]
    return [f"{patch.name}:{line}" for line in said]


def last_line(text: str) -> str:
    """Return the last line that is not empty."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no output")


def check_prefixes(tree: Tree, notes: Notes, patches: list[Path], numbers: Iterable[int]) -> list[str]:
    """Check the prefixes of these lengths; return what is wrong, one line each."""
    wrong = []
    for number in numbers:
        patch = patches[number - 1]
        key = key_of(tree.archive, patches[:number])
        if notes.good(key):
            typer.echo(f"[{number}/{len(patches)}] {patch.name}: good before")
            continue
        start = time.monotonic()
        found = check_prefix(tree, patches, number)
        wrong += found
        for line in found:
            typer.echo(f"[{number}/{len(patches)}] WRONG {line}")
        if not found:
            notes.add(key)
            typer.echo(f"[{number}/{len(patches)}] {patch.name}: good ({time.monotonic() - start:.0f} s)")
    return wrong


def check_prefix(tree: Tree, patches: list[Path], number: int) -> list[str]:
    """Check the prefix of this length; return what is wrong, one line each."""
    patch, wrong = patches[number - 1], []
    try:
        apply_up_to(tree, patches, number)
        wrong = read_patch(tree, patch)
        build(tree, patch.name)
        boot(tree, patch.name, _WITH_RIO if any(_MOUNTS in each.name for each in patches[:number]) else "")
    except Failed as failed:
        wrong.append(str(failed))
    return wrong


def fetch(root: Path, place: Path, wanted: str) -> str:
    """Download a package with a kernel source from a suite of Debian; return its path in the root.

    The version is the suite's, also where another one is installed.
    """
    suite, _, package = wanted.partition("/")
    place.mkdir(parents=True, exist_ok=True)
    inside = f"/{place.relative_to(root)}"
    where = "debian-security" if suite.endswith("-security") else "debian"
    (place / "sources.list").write_text(f"deb http://deb.debian.org/{where}/ {suite} main\n")
    options = f"-o Dir::Etc::SourceList={inside}/sources.list -o Dir::Etc::SourceParts=- "
    options += f"-o Dir::State::Lists={inside}/lists -o APT::Sandbox::User=root"
    script = (
        f"cd {inside} && mkdir -p lists/partial && apt-get -q {options} update && "
        f"apt-get -q {options} download {package}/{suite} && dpkg-deb -x {package}_*.deb . && "
        f"rm -r lists {package}_*.deb"
    )
    archive = f"{inside}/usr/src/{package}.tar.xz"
    if not (root / archive[1:]).exists():
        typer.echo(f"Downloading {package} from {suite}")
        done = subprocess.run(["chroot", str(root), "/bin/sh", "-ec", script], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{wanted}: {last_line(done.stderr)}; give SUITE/PACKAGE of Debian's archive")
    return archive


def main(
    first: Annotated[int, typer.Option(min=1, help="The shortest prefix.")] = 1,
    last: Annotated[int | None, typer.Option(min=1, help="The longest prefix.", show_default="all")] = None,
    also: Annotated[list[str] | None, typer.Option(help="Another source, as SUITE/PACKAGE.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Parallel compilers.")] = 2,
) -> None:
    """Check each prefix of the series, then the whole series on other sources."""
    root = load_manifest().toolchain.root
    work = root / "build/kernel-check"
    work.mkdir(parents=True, exist_ok=True)
    notes, patches = Notes(work / "good.json"), series()
    own = Tree(root, work / "own", "/usr/src/linux-source-6.12.tar.xz", jobs)
    wrong = check_prefixes(own, notes, patches, range(first, min(last or len(patches), len(patches)) + 1))
    for wanted in also or []:
        place = work / wanted.replace("/", "-")
        typer.echo(f"The whole series on {wanted}")
        try:
            other = Tree(root, place, fetch(root, place / "package", wanted), jobs)
        except Failed as failed:
            wrong.append(str(failed))
            continue
        wrong += check_prefixes(other, notes, patches, [len(patches)])
    for line in wrong:
        typer.echo(f"kernel-check: {line}", err=True)
    raise typer.Exit(bool(wrong))


if __name__ == "__main__":
    typer.run(main)
