# SPDX-License-Identifier: Apache-2.0
"""`python -m riobed.products`: the playbooks' interface to the products.

It runs before the project is installed, so it needs only the standard library and pydantic.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from riobed_results.files import cache_dir

from riobed.errors import RiobedError
from riobed.products.kernel import KernelSpec, kernel_from_environment
from riobed.products.manifest import write_manifest
from riobed.products.stages import (
    CHECKOUT,
    STAGES,
    built,
    export,
    kernel_tree,
    keys,
    prepare_cache,
    product_dir,
    superseded,
)


def _print_keys(as_json: bool, kernel: KernelSpec | None) -> None:
    found = keys(CHECKOUT, kernel)
    stages = {
        name: {"key": key, "dir": str(product_dir(name, key)), "built": built(name, found)}
        for name, key in found.items()
    }
    if as_json:
        print(
            json.dumps(
                {"cache": str(cache_dir()), "tree": str(kernel_tree(found)), "stages": stages}, indent=2
            )
        )
        return
    for name, stage in stages.items():
        print(f"{name:10} {stage['key']} {'built' if stage['built'] else 'to build'}")


def _run(arguments: argparse.Namespace) -> None:
    kernel = kernel_from_environment()
    match arguments.command:
        case "keys":
            _print_keys(arguments.json, kernel)
        case "prepare":
            print(prepare_cache(CHECKOUT, kernel))
        case "export":
            export(arguments.stage, arguments.key, arguments.target, CHECKOUT, kernel)
        case "manifest":
            print("written" if write_manifest() else "unchanged")
        case "prune":
            for path in superseded():
                print(f"removing {path}")
                shutil.rmtree(path)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of the playbooks; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m riobed.products", description="products of make setup")
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("keys", help="list the keys of all stages, and whether they are built")
    listing.add_argument("--json", action="store_true")
    commands.add_parser("prepare", help="make the cache folder and print it; fail if its disk is too full")
    copying = commands.add_parser("export", help="copy the inputs of a stage")
    copying.add_argument("stage", choices=STAGES)
    copying.add_argument("key")
    copying.add_argument("target", type=Path)
    commands.add_parser("manifest", help="write the checkout's manifest")
    commands.add_parser("prune", help="remove from the cache what the checkout does not use")
    try:
        _run(parser.parse_args(argv))
    except (RiobedError, OSError) as error:
        print(f"riobed: {error}", file=sys.stderr)
        return error.exit_code if isinstance(error, RiobedError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
