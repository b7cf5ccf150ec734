# SPDX-License-Identifier: Apache-2.0
"""The oracle accepts what a run leaves, however it is stopped, and finds what is damaged."""

import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pmemobj_helper import (
    APIS,
    ENVIRONMENT,
    OID,
    POOL_BYTES,
    SEED,
    SLOTS_AT,
    TRANSACTIONS,
    Pmemobj,
    change,
    flip,
    number,
)

STEPS = 200


@pytest.fixture(scope="session")
def made(pmemobj: Pmemobj, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A directory after STEPS steps through an interface, which is not to be changed."""
    folder = tmp_path_factory.mktemp("pmemobj")

    def make(api: str) -> Path:
        if not (folder / api).exists():
            pmemobj.run(folder / api, api, STEPS)
        return folder / api

    return make


@pytest.fixture
def copied(made: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda api: Path(shutil.copytree(made(api), tmp_path / "dir"))


@pytest.fixture(scope="session")
def places(pmemobj: Pmemobj, made: Callable[[str], Path]) -> Callable[[str], tuple[int, list[int]]]:
    """Where the counter of such a pool is, and its objects: nothing in it is of another seed and step."""

    def find(api: str) -> tuple[int, list[int]]:
        found = pmemobj.verify(made(api), api, STEPS + 1, seed=SEED + 1)["differences"]
        counter, *others = (each["offset"] for each in found if each["kind"] in ("content", "size", "extra"))
        return counter, others

    return find


@pytest.mark.parametrize("api", APIS)
def test_what_was_done_is_equal_and_another_step_is_not(
    pmemobj: Pmemobj, made: Callable[[str], Path], api: str
) -> None:
    report = pmemobj.verify(made(api), api, STEPS)
    assert report["differences"] == [] and report["kept"] == STEPS
    assert report["pmempool"] == ("" if api == "libpmem" else "consistent")
    assert 100 < report["files_expected"] <= 192 and report["bytes_expected"] > 100_000
    for done in (0, STEPS - 1, STEPS + 1):
        counter, *others = pmemobj.verify(made(api), api, done)["differences"]
        assert counter["detail"] == f"the counter is {STEPS}, want {done} to {done}" and others
    assert pmemobj.verify(made(api), api, STEPS, seed=SEED + 1)["files_lost"] > 100


@pytest.mark.parametrize("api", APIS)
def test_the_newest_steps_may_be_lost_if_they_are_allowed_to(
    pmemobj: Pmemobj, made: Callable[[str], Path], api: str
) -> None:
    assert pmemobj.verify(made(api), api, STEPS - 1, "--intent", STEPS)["differences"] == []
    report = pmemobj.verify(made(api), api, STEPS + 9, "--oldest", STEPS)
    assert (report["difference_count"], report["kept"], report["steps_lost"]) == (0, STEPS, 9)
    assert pmemobj.verify(made(api), api, STEPS + 9, "--oldest", STEPS + 1)["steps_lost"] is None


def reported(log: Path) -> tuple[int, int]:
    """The last step done, and the one in flight or 0, from a log whose last line may be cut."""
    records = re.findall(r"^([ID]) (\d+) [0-9a-f]{8}$", log.read_text(), re.MULTILINE)
    last = {letter: int(step) for letter, step in records}
    done, intent = last.get("D", 0), last.get("I", 0)
    return done, intent if intent > done else 0


def killed(pmemobj: Pmemobj, root: Path, api: str, least: int, *args: str) -> tuple[int, int]:
    """Run in `root`, killed at some moment after step `least`; return what it had reported."""
    log = root.with_suffix(".progress")
    log.unlink(missing_ok=True)
    log.touch()
    pmemobj.prepare(root, api)
    options = ["--dir", root, "--api", api, "--seed", SEED, "--progress", log, *args]
    with subprocess.Popen([str(word) for word in [pmemobj.binary, "run", *options]], env=ENVIRONMENT) as run:
        deadline = time.monotonic() + 120
        while reported(log)[0] < least:
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.001)
        run.kill()
    return reported(log)


@pytest.mark.parametrize("api", APIS)
def test_killed_at_any_moment_verify_says_equal(
    pmemobj: Pmemobj, tmp_path: Path, api: str, longer: int
) -> None:
    rng, in_flight, least = random.Random(5), 0, 3 if longer == 1 else 8 * longer
    for trial in range(8 * longer):
        root = tmp_path / str(trial)
        done, intent = killed(pmemobj, root, api, rng.randrange(1, 30))
        assert pmemobj.verify(root, api, done, "--intent", intent)["differences"] == [], (trial, done)
        in_flight += bool(intent)
        if trial >= least - 1 and in_flight:
            return
    pytest.fail("no step was in flight")


def test_told_to_stop_it_ends_after_a_step(pmemobj: Pmemobj, tmp_path: Path) -> None:
    root, log = tmp_path / "dir", tmp_path / "log"
    pmemobj.prepare(root, "tx")
    options = ["--dir", str(root), "--seed", str(SEED), "--progress", str(log)]
    with subprocess.Popen([pmemobj.binary, "run", *options], env=ENVIRONMENT) as run:
        while not log.exists() or reported(log)[0] < 5:
            time.sleep(0.01)
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0
    done, intent = reported(log)
    assert intent == 0 and pmemobj.kinds(root, "tx", done) == []


@pytest.mark.parametrize("api", APIS)
def test_a_changed_bit_where_objects_are_said_to_be_is_found(
    pmemobj: Pmemobj, copied: Callable[[str], Path], api: str
) -> None:
    root, rng = copied(api), random.Random(9)
    told = pmemobj("places", "--dir", root, "--api", api)
    pieces = [line.split() for line in told.stdout.splitlines()]
    assert told.returncode == 0 and len(pieces) > 100
    for start, size, path in rng.sample(pieces, 5):
        offset = int(start) + rng.randrange(int(size))
        flip(root / path, offset)
        assert "content" in pmemobj.kinds(root, api, STEPS), (start, size)
        flip(root / path, offset)
    assert pmemobj.kinds(root, api, STEPS) == []


@pytest.mark.parametrize("platform", ["honest", "lying"])
def test_the_platform_is_what_pmdk_is_told_of_it(pmemobj: Pmemobj, tmp_path: Path, platform: str) -> None:
    """PMDK reads its environment when it is loaded. What it then does not flush only a guest can lose."""
    pmemobj.prepare(tmp_path, "tx")
    options = [
        "--dir",
        str(tmp_path),
        "--seed",
        str(SEED),
        "--platform",
        platform,
        "--progress",
        "/dev/stdout",
    ]
    argv = [pmemobj.binary, "run", *options]
    with subprocess.Popen(argv, env=ENVIRONMENT, stdout=subprocess.PIPE) as run:
        assert run.stdout and run.stdout.readline()
        told = b"PMEM_NO_FLUSH=1" in Path(f"/proc/{run.pid}/environ").read_bytes().split(b"\0")
        run.kill()
    assert told == (platform == "lying")


@pytest.mark.parametrize("api", APIS)
def test_what_is_reported_is_there_after_a_loss_of_memory(pmemobj: Pmemobj, tmp_path: Path, api: str) -> None:
    """What was not synced is gone."""
    root = lost_memory(pmemobj, tmp_path, api)
    assert pmemobj.verify(root, api, STEPS)["differences"] == []


def lost_memory(pmemobj: Pmemobj, folder: Path, api: str, *args: str) -> Path:
    """Do STEPS steps; return a directory with what of the pool was synced."""
    live, kept = folder / "live", folder / "kept"
    pmemobj.prepare(live, api)
    shutil.copytree(live, kept)
    done = pmemobj(
        "run", "--dir", live, "--api", api, "--seed", SEED, "--steps", STEPS, *args,
        env=pmemobj.losing_memory(kept / "pool"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # Not a word of these bugs is to be seen in memory.
    assert pmemobj.kinds(live, api, STEPS) == []
    return kept


@pytest.mark.parametrize("bug", ["missing-flush", "late-flush"])
@pytest.mark.parametrize("api", APIS)
def test_a_wrong_flush_is_found_after_a_loss_of_memory(
    pmemobj: Pmemobj, tmp_path: Path, api: str, bug: str
) -> None:
    report = pmemobj.verify(lost_memory(pmemobj, tmp_path, api, "--bug", bug), api, STEPS)
    assert {found["kind"] for found in report["differences"]} <= {"content"}
    assert report["difference_count"] > 0
    # Late is only what the last step wrote.
    assert (report["difference_count"] <= 3) == (bug == "late-flush")


def test_a_range_that_is_not_in_the_log_is_found_when_a_transaction_is_cut_short(
    pmemobj: Pmemobj, tmp_path: Path
) -> None:
    """The update stays, though its transaction is rolled back."""
    for trial in range(200):
        root = tmp_path / str(trial)
        done, intent = killed(pmemobj, root, "tx", 40, "--bug", "missing-add")
        report = pmemobj.verify(root, "tx", done, "--intent", intent)
        shutil.rmtree(root)
        if report["difference_count"]:
            assert report["pmempool"] == "consistent"
            return
    pytest.fail("never")


@pytest.mark.parametrize("api", APIS)
def test_one_changed_bit_is_found(
    pmemobj: Pmemobj,
    copied: Callable[[str], Path],
    places: Callable[[str], tuple[int, list[int]]],
    api: str,
) -> None:
    root = copied(api)
    offset = places(api)[1][7]
    flip(root / "pool", offset + 5)
    (found,) = pmemobj.verify(root, api, STEPS)["differences"]
    assert (found["kind"], found["path"], found["offset"], found["length"]) == ("content", "pool", offset, 8)
    # And nothing else was changed.
    flip(root / "pool", offset + 5)
    assert pmemobj.kinds(root, api, STEPS) == []


@pytest.mark.parametrize("steps", [0, STEPS - 5, STEPS + 2, -1])
@pytest.mark.parametrize("api", ["tx", "libpmem"])
def test_a_wrong_counter_is_found(
    pmemobj: Pmemobj,
    copied: Callable[[str], Path],
    places: Callable[[str], tuple[int, list[int]]],
    api: str,
    steps: int,
) -> None:
    root = copied(api)
    offset = places(api)[0]
    change(root / "pool", offset, number(steps), 8)
    (found,) = pmemobj.verify(root, api, STEPS, "--intent", STEPS + 1)["differences"]
    assert found["detail"].startswith("the counter is ") and found["offset"] == offset


@pytest.mark.parametrize("api", APIS)
def test_half_a_step_is_right_only_without_transactions(
    pmemobj: Pmemobj,
    copied: Callable[[str], Path],
    places: Callable[[str], tuple[int, list[int]]],
    api: str,
) -> None:
    """The operations of the last step are there, and its counter is not."""
    root = copied(api)
    change(root / "pool", places(api)[0], number(STEPS - 1), 8)
    kinds = pmemobj.kinds(root, api, STEPS - 1, "--intent", STEPS)
    assert bool(kinds) == (api in TRANSACTIONS)
    assert pmemobj.kinds(root, api, STEPS - 1)


def test_an_update_in_flight_may_be_torn_in_words(pmemobj: Pmemobj, tmp_path: Path) -> None:
    """Only where it is written in place, and only old and new words."""
    before, after = tmp_path / "before", tmp_path / "after"
    pmemobj.run(before, "atomic", STEPS - 1)
    pmemobj.run(after, "atomic", STEPS)
    old, new = (root.joinpath("pool").read_bytes() for root in (before, after))
    # Both runs allocate the same, so an object that the step updates has the same place.
    (start, length), *_ = (
        (found["offset"], found["length"])
        for found in pmemobj.verify(before, "atomic", STEPS)["differences"]
        if found["kind"] == "content" and found["detail"].startswith("slot")
    )
    update = range(start, start + length, 8)
    assert len(update) > 20
    torn = bytearray(old)
    for at in update[::2]:
        torn[at : at + 8] = new[at : at + 8]
    (before / "pool").write_bytes(torn)
    assert pmemobj.kinds(before, "atomic", STEPS - 1, "--intent", STEPS) == []
    assert pmemobj.kinds(before, "atomic", STEPS - 1) != []
    torn[update[0]] ^= 1
    (before / "pool").write_bytes(torn)
    assert pmemobj.kinds(before, "atomic", STEPS - 1, "--intent", STEPS) == ["content"]


def first_slots(pool: Path, counter: int) -> list[int]:
    """Where the first slots that have an object are."""
    data = pool.read_bytes()
    at = [counter + SLOTS_AT + slot * OID for slot in range(64)]
    return [place for place in at if any(data[place : place + OID])]


@pytest.mark.parametrize("api", ["tx", "atomic"])
def test_a_slot_that_leads_astray_is_found(
    pmemobj: Pmemobj,
    copied: Callable[[str], Path],
    places: Callable[[str], tuple[int, list[int]]],
    api: str,
) -> None:
    pool = copied(api) / "pool"
    whole = pool.read_bytes()
    first, second, *_ = first_slots(pool, places(api)[0])
    lost = {"content", "extra"}
    for value in (1, POOL_BYTES - 8, 1 << 62, int.from_bytes(whole[second + 8 : second + 16], "little")):
        change(pool, first + 8, number(value), 8)
        assert lost <= set(pmemobj.kinds(pool.parent, api, STEPS)) <= lost | {"size"}, value
        pool.write_bytes(whole)
    flip(pool, first)  # another pool's
    assert lost == set(pmemobj.kinds(pool.parent, api, STEPS))
    pool.write_bytes(whole)
    change(pool, first, lambda old: bytes(len(old)), OID)
    assert set(pmemobj.kinds(pool.parent, api, STEPS)) == {"missing", "extra"}


def test_a_slot_of_libpmem_that_leads_astray_is_found(
    pmemobj: Pmemobj, copied: Callable[[str], Path], places: Callable[[str], tuple[int, list[int]]]
) -> None:
    pool = copied("libpmem") / "pool"
    whole = pool.read_bytes()
    slot = next(at for at in range(places("libpmem")[0] + 8, 1 << 12, 8) if any(whole[at : at + 8]))
    words = int.from_bytes(whole[slot : slot + 8], "little")
    for value, kind in (
        (0, "missing"),
        (1, "content"),
        (-1, "content"),
        (words ^ 1, "content"),
        (words ^ 2, "size"),
    ):
        change(pool, slot, number(value), 8)
        assert pmemobj.kinds(pool.parent, "libpmem", STEPS) == [kind], value


# What is left of the pool, and what the oracle calls it.
REMAINS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (Path.unlink, "missing"),
    "no folder": (lambda pool: shutil.rmtree(pool.parent), "missing"),
    "shorter": (lambda pool: os.truncate(pool, POOL_BYTES // 2), "size"),
    "empty": (lambda pool: os.truncate(pool, 0), "size"),
    "longer": (lambda pool: os.truncate(pool, 1 << 40), "size"),
    "fifo": (lambda pool: (pool.unlink(), os.mkfifo(pool)), "type"),
    "folder": (lambda pool: (pool.unlink(), pool.mkdir()), "type"),
    "symlink": (lambda pool: pool.symlink_to(pool.rename(pool.with_name("other"))), "type"),
    "zeros": (lambda pool: pool.write_bytes(bytes(POOL_BYTES)), "unreadable"),
    "noise": (lambda pool: pool.write_bytes(random.Random(1).randbytes(POOL_BYTES)), "unreadable"),
    "header": (lambda pool: flip(pool, 3), "unreadable"),
    "no header": (lambda pool: change(pool, 0, lambda old: bytes(len(old)), 8192), "unreadable"),
}


@pytest.mark.parametrize("remains", REMAINS)
@pytest.mark.parametrize("api", ["tx", "libpmem"])
def test_what_is_no_pool_is_a_result(
    pmemobj: Pmemobj, copied: Callable[[str], Path], api: str, remains: str
) -> None:
    pool = copied(api) / "pool"
    ruin, kind = REMAINS[remains]
    ruin(pool)
    report = pmemobj.verify(pool.parent, api, STEPS)
    kinds = {found["kind"] for found in report["differences"]}
    if api == "libpmem" and kind == "unreadable":
        # There is no library that would refuse it.
        kinds, kind = kinds - {"missing", "size"}, "content"
    assert kind in kinds and kinds <= {kind, "pmempool"}
    assert kind == "content" or report["files_lost"] == report["files_expected"] > 100


@pytest.mark.parametrize("api", TRANSACTIONS)
def test_whatever_is_damaged_the_checker_comes_to_a_result(
    pmemobj: Pmemobj, copied: Callable[[str], Path], api: str, longer: int
) -> None:
    """PMDK trusts a pool. It dies of some of these."""
    pool = copied(api) / "pool"
    whole = pool.read_bytes()
    used = [at for at in range(0, POOL_BYTES, 64) if any(whole[at : at + 64])]
    rng, died, found = random.Random(2), 0, 0
    for _ in range(15 * longer):
        damaged = bytearray(whole)
        for at in rng.sample(used, 30):
            damaged[at : at + 8] = rng.randbytes(8)
        # The library's own: its lanes and what it has of the heap.
        for at in rng.sample([at for at in used if at < 6 << 20], 20):
            damaged[at : at + 64] = rng.randbytes(64)
        pool.write_bytes(damaged)
        report = pmemobj.verify(pool.parent, api, STEPS)
        details = " ".join(each["detail"] for each in report["differences"])
        died += "Segmentation fault when" in details or "Aborted when" in details
        found += report["difference_count"] > 0
    assert died and found == 15 * longer


def test_a_run_meets_the_damage_and_ends(
    pmemobj: Pmemobj, copied: Callable[[str], Path], tmp_path: Path
) -> None:
    """It begins with a pool that is not empty, which is wrong in the model's eyes."""
    root = copied("tx")
    log = tmp_path / "log"
    result = pmemobj("run", "--dir", root, "--seed", SEED, "--progress", log)
    assert result.returncode == 4 and "mismatch" in result.stderr
    assert [line.split()[0] for line in log.read_text().splitlines()] == ["S", "I", "E", "F"]
    assert re.search(
        r"^E 1 [0-9a-f]{8} mismatch step pool slot \d+ at offset \d+$", log.read_text(), re.MULTILINE
    )


@pytest.mark.parametrize(
    "command",
    [
        "", "other", "run", "run --dir . --seed 1 x", "run --dir . --seed x",
        "run --dir . --seed 1 --api pmem",
        "run --dir . --seed 1 --bug all", "run --dir . --seed 1 --api atomic --bug missing-add",
        "run --dir . --seed 1 --platform other",
        "prepare --dir . --pool-mib 7", "prepare --dir . --pool-mib 9999", "prepare --dir . --seed 1",
        "run --dir . --seed 1 --progress port:70000", "verify --dir . --seed 1", "verify --dir",
        "verify --dir . --seed 1 --done 5 --intent 7", "verify --dir . --seed 1 --done 5 --oldest 6",
    ],
)  # fmt: skip
def test_wrong_use(pmemobj: Pmemobj, tmp_path: Path, command: str) -> None:
    if "port" in command:
        pmemobj.prepare(tmp_path, "tx")
    result = pmemobj(*command.split(), cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("pmemobj: ")


def test_a_place_that_is_not_as_it_should_be(pmemobj: Pmemobj, tmp_path: Path) -> None:
    assert pmemobj("run", "--dir", tmp_path, "--seed", SEED).returncode == 1
    pmemobj.prepare(tmp_path, "tx")
    assert pmemobj("prepare", "--dir", tmp_path).returncode == 1
