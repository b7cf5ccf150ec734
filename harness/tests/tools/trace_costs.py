# SPDX-License-Identifier: Apache-2.0
"""Measures what recording costs, and how fast models run beside libCacheSim.

trace_costs.py speed OUT.json TRACE...    CPU seconds, five interleaved rounds a trace
trace_costs.py recorder OUT.json          seconds of a fixed job with and without the recorder
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from riobed_caches.models.bands import Policy, bands
from riobed_caches.models.count import Count
from riobed_caches.models.moments import moments_of
from riobed_caches.models.policy import View, policy
from riobed_caches.models.tree import every_size
from riobed_caches.models.unified import single
from riobed_caches.stream.clients import Client, client_of
from riobed_caches.stream.consistency import actions_of
from riobed_caches.stream.ops import Op, Stream
from riobed_caches.stream.split import split
from riobed_caches.study.lru import DELAY
from riobed_caches.trace.file import read_trace

ROUNDS = 5
# Nine sizes in blocks: 128 KiB to 32 MiB.
SIZES = 32 << np.arange(9)
# A policy that looks at all blocks takes its time: so many references, and blocks.
FEW, ROOM = 100_000, 256
# Work that takes some seconds, so that the start of the recorder matters little: compile, pack, a database.
JOB = r"""
set -e
sqlite3 base "CREATE TABLE t (a, b);"
for n in $(seq 40); do
    cc -D_GNU_SOURCE -O2 -c "$0" -o $n.o; tar cf all.tar *.o; tar xf all.tar; gzip -kf all.tar
    sqlite3 base "INSERT INTO t VALUES ($n, hex(randomblob(500)));"
done
"""


def load(path: Path) -> Stream:
    """Read a trace as one client sees it, so that both ways have the same references."""
    trace = read_trace(path)
    actions, _ = actions_of(trace, np.zeros_like(client_of(trace, Client.HOST)))
    return split(actions)


def misses_of(blocks: Path) -> list[float]:
    """Run libCacheSim's LRU once a size; returns the miss ratios."""
    import libcachesim

    ratios = []
    for size in SIZES:
        reader = libcachesim.TraceReader(str(blocks), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        ratios.append(float(libcachesim.LRU(cache_size=int(size)).process_trace(reader)[0]))
    return ratios


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of some work."""
    before = time.process_time()
    work()
    return time.process_time() - before


def speed(traces: list[Path]) -> list[dict[str, object]]:
    """Compare nine sizes with everything on, and every size, with nine runs of libCacheSim."""
    out: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        blocks = Path(folder) / "blocks"
        for path in traces:
            stream = load(path)
            kept = stream.op <= Op.WRITE
            references(stream.block[kept]).tofile(blocks)
            same_misses(stream, misses_of(blocks))
            same_choices(stream, blocks)
            ways = {
                "references_over_libcachesim_min": partial(run_bands, path),
                "all_sizes_over_libcachesim_min": partial(run_every_size, path),
            }
            found: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in ways}
            for _ in range(ROUNDS):
                theirs = cpu(lambda: misses_of(blocks))
                for what, way in ways.items():
                    found[what][0].append(cpu(way))
                    found[what][1].append(theirs)
            for what, (ours, other) in found.items():
                out.append({"what": what, "trace": path.stem, "seconds": ours, "over": other})
                print(what, path.stem, f"{np.median(np.array(other) / np.array(ours)):.2f}", file=sys.stderr)
    return out


def references(block: NDArray[np.int32]) -> NDArray[np.void]:
    """Return the records of libCacheSim's oracleGeneral: time, id, size, and the next reference to the id."""
    rows = np.zeros(len(block), [("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])
    rows["id"], rows["size"], rows["next"] = block, 1, -1
    order = np.argsort(block, kind="stable")
    same = block[order[:-1]] == block[order[1:]]
    rows["next"][order[:-1][same]] = order[1:][same]
    return rows


def furthest(view: View) -> int:
    """Give up the block that is accessed the furthest in the future (Belady 1966)."""
    best = view.blocks[0]
    for block in view.blocks:
        if view.next_access[block] > view.next_access[best]:
            best = block
    return int(best)


def earliest(view: View) -> int:
    """Give up the block that came in before all others."""
    best = view.blocks[0]
    for block in view.blocks:
        if view.came_in[block] < view.came_in[best]:
            best = block
    return int(best)


# By the names of libCacheSim.
OF_A_USER = {"Belady": policy("belady")(furthest), "FIFO": policy("fifo")(earliest)}


def same_choices(stream: Stream, blocks: Path) -> None:
    """Exit if a policy of OF_A_USER misses otherwise than libCacheSim's in FEW references."""
    import libcachesim

    alone = references_alone(stream, FEW)
    references(alone.block).tofile(blocks)
    for name, choose in OF_A_USER.items():
        reader = libcachesim.TraceReader(str(blocks), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        theirs = float(getattr(libcachesim, name)(cache_size=ROOM).process_trace(reader)[0])
        counts, _ = single(alone, ROOM, choose)
        ours = float(counts[Count.READ_MISSES] + counts[Count.WRITE_MISSES]) / len(alone.op)
        print(f"{name}: {ours:.6f} and {theirs:.6f} of {len(alone.op)}", file=sys.stderr)
        if abs(ours - theirs) > 1e-9:
            sys.exit(f"trace_costs: misses of {name} differ")


def references_alone(stream: Stream, number: int | None = None) -> Stream:
    """Return the first reads and writes of a stream, without what deletes or flushes."""
    kept = np.flatnonzero(stream.op <= Op.WRITE)[:number]
    columns = {name: getattr(stream, name)[kept] for name in ("time", "op", "block", "lo", "hi")}
    return replace(stream, **columns)


def run_bands(path: Path) -> object:
    """Run nine sizes with all that a row has: deletions, 30 s, whole files, bytes at risk at 2000 moments."""
    stream = load(path)
    return bands(stream, SIZES, Policy(delay=DELAY, whole_files=True), moments_of(stream))


def run_every_size(path: Path) -> object:
    """Run every size up to all blocks: misses, write-backs, dirty blocks at the end."""
    stream = load(path)
    return every_size(stream, stream.blocks)


def same_misses(stream: Stream, ratios: list[float]) -> None:
    """Exit if the misses of reads and writes alone differ; libCacheSim has no deletions."""
    alone = references_alone(stream)
    counts = bands(alone, SIZES, Policy(), moments_of(alone, 1)).counts
    found = (counts[Count.READ_MISSES] + counts[Count.WRITE_MISSES]) / len(alone.op)
    if not np.allclose(found, ratios, rtol=0, atol=1e-9):
        sys.exit(f"trace_costs: misses differ: {found.tolist()} and {ratios}")


def recorder() -> list[dict[str, object]]:
    """Time a fixed job alone and under the recorder, in turns."""
    source = Path(__file__).resolve().parents[3] / "workloads/sweep/tree.c"
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for recorded, kept in enumerate(times):
            with tempfile.TemporaryDirectory() as folder:
                command = ["sh", "-c", JOB, str(source)]
                if recorded:
                    record = [
                        sys.executable,
                        "-m",
                        "riobed.cli",
                        "trace",
                        "record",
                        "--out",
                        "out.parquet",
                        "--",
                    ]
                    command = [*record, *command]
                before = time.monotonic()
                subprocess.run(command, cwd=folder, check=True, capture_output=True)
                kept.append(time.monotonic() - before)
    print(f"recorder {np.median(np.array(times[1]) / np.array(times[0])):.2f}", file=sys.stderr)
    return [{"what": "recorder_slowdown_max", "trace": "job", "seconds": times[0], "over": times[1]}]


def main() -> None:
    """Measure, and add to the file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("speed", "recorder"))
    parser.add_argument("out", type=Path)
    parser.add_argument("traces", type=Path, nargs="*")
    given = parser.parse_args()
    known = json.loads(given.out.read_text()) if given.out.exists() else []
    found = speed(given.traces) if given.what == "speed" else recorder()
    given.out.write_text(json.dumps([*known, *found], indent=1) + "\n")


if __name__ == "__main__":
    main()
