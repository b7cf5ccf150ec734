# SPDX-License-Identifier: Apache-2.0
"""Computes how few bytes NVRAM can send at best, at the sizes of omniscient NVRAM in a study.

trace_bounds.py OUT.json TRACE...    PYTHONPATH with harness/tests; some seconds of CPU a size and trace
"""

import argparse
import json
from pathlib import Path

from caches.reference_bound import least_sent
from riobed_caches.study.nvram import SAFE
from riobed_caches.study.prepare import Options, prepare


def bounds(path: Path) -> list[dict[str, str | int]]:
    """Return the bound of each size; what passes by the caches is sent too."""
    stream = prepare(path, Options()).stream
    least = least_sent(stream, *(safe // stream.block_size for safe in SAFE))
    return [
        {"trace": path.stem, "safe": safe, "sent": stream.passed_written + sent}
        for safe, sent in zip(SAFE, least, strict=True)
    ]


def main() -> None:
    """Write the bounds of all traces."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("traces", type=Path, nargs="+")
    given = parser.parse_args()
    found = [bound for path in given.traces for bound in bounds(path)]
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
