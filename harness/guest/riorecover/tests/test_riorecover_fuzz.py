# SPDX-License-Identifier: Apache-2.0
"""The fuzz target finds nothing in riorecover as it is, and does find what is broken on purpose.

A long run, which prints how many inputs were tried: `make fuzz` (RUNS=N, 10^6 unless told).
"""

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from riorecover_helper import build

pytestmark = pytest.mark.slow
# Enough to find each thing that is broken below.
RUNS = 20_000
SEED = 1996
ALONE = "written by the registry alone"
WRITES_EVIDENCE = "*(char *)(uintptr_t)found ^= 1, memcpy(content, found"


# Each file becomes an object, so that a change in one file compiles no other.
OBJECTS = "FUZZED=fuzz.o fuzz_input.o $(CORE:.c=.o)"
COMPILE = "COMPILE.c=clang $(CFLAGS) -D_GNU_SOURCE $(SANITIZE) -fsanitize=fuzzer-no-link -c"


def compiled(folder: Path) -> Path:
    return build(folder, "riorecover-fuzz", OBJECTS, COMPILE)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the fuzz target and its objects; not to be changed."""
    return compiled(tmp_path_factory.mktemp("riorecover-fuzz")).parent


@pytest.fixture
def copied(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "fuzz"))


def broken(folder: Path, file: str, good: str, bad: str) -> Path:
    """The fuzz target with one thing changed."""
    text = (folder / file).read_text()
    assert text.count(good) == 1
    (folder / file).write_text(text.replace(good, bad))
    return compiled(folder)


def fuzz(target: Path, runs: int = RUNS) -> subprocess.CompletedProcess[str]:
    """Runs from a few random inputs that have all their checksums made right."""
    corpus = target.parent / "corpus"
    corpus.mkdir()
    rng = random.Random(SEED)
    for number in range(4):
        (corpus / str(number)).write_bytes(b"\x7f" + rng.randbytes(16000))
    options = ["-max_len=20000", f"-runs={runs}", f"-seed={SEED}", "-artifact_prefix=found-"]
    return subprocess.run(
        [target, *options, corpus], cwd=target.parent, capture_output=True, text=True, errors="replace"
    )


def test_nothing_is_found(copied: Path, longer: int) -> None:
    runs = RUNS // 20 if longer == 1 else 1_000_000
    result = fuzz(copied / "riorecover-fuzz", runs)
    assert result.returncode == 0, result.stderr[-2000:]
    assert f"Done {runs} runs" in result.stderr


# A file, what stands in it once, what is put there, and what the fuzz target then says.
BROKEN = {
    "bounds": ("entries.c", "index >= r->device", "index >= 2 * r->device", "index < DEVICE_BLOCKS"),
    "counts": ("entries.c", "counts->free++;", ";", "c->entries =="),
    "overflow": ("entries.c", "malloc((nr + 1) * ", "malloc(", "heap-buffer-overflow"),
    "evidence written": ("restore.c", "memcpy(content, found", WRITES_EVIDENCE, ALONE),
    "checksums": ("entries.c", "counts->changing++;", ";", "checked >= dirty"),
    "log bounds": ("log.c", "+ length <= RIO_PAGE_SIZE", "<= RIO_PAGE_SIZE", "undo->offset + undo->length"),
    "undo": ("log.c", "memcpy(content + undo->offset", "memcpy(content", ALONE),
    "file longer": (
        "restore.c",
        "if ((off_t)length > size - offset)",
        "if (false)",
        "st_size == FILE_SIZE",
    ),
    "place": ("restore.c", "offset = (off_t)(page->index * ", "offset = (off_t)(page->index / 2 * ", ALONE),
    "save": ("save.c", " == crc32c(0, save->page, RIO_PAGE_SIZE);", ";", ALONE),
}


# It is found late.
LATE = {"log bounds"}


@pytest.mark.parametrize(
    ("file", "good", "bad", "says"),
    [
        pytest.param(*case, id=name, marks=[pytest.mark.extended] * (name in LATE))
        for name, case in BROKEN.items()
    ],
)
def test_what_is_broken_is_found(copied: Path, file: str, good: str, bad: str, says: str) -> None:
    result = fuzz(broken(copied, file, good, bad))
    assert result.returncode != 0
    assert says in result.stderr
