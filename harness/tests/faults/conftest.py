# SPDX-License-Identifier: Apache-2.0
"""A small kernel-like ELF file, made by the host's compiler, and its catalogue."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from riobed.faults import Catalogue
from riobed.faults.classes.rules import RULES

VICTIM = Path(__file__).with_name("victim.S")


@pytest.fixture(scope="session")
def link(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """link(*options): the victim, or another source, linked at the kernel's address, with options of gcc."""

    def run(*options: str, source: Path = VICTIM) -> Path:
        out = tmp_path_factory.mktemp("victim") / "vmlinux"
        subprocess.run(
            ["gcc", "-g", "-nostdlib", "-static", "-no-pie", "-Wl,-e,_stext"]
            + ["-Wl,-Ttext=0xffffffff81000000", "-Wl,--build-id=sha1", *options, "-o", str(out), str(source)],
            check=True,
        )
        return out

    return run


@pytest.fixture(scope="session")
def vmlinux(link: Callable[..., Path]) -> Path:
    return link()


@pytest.fixture(scope="session")
def catalogue(vmlinux: Path, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return Catalogue.open(vmlinux, tmp_path_factory.mktemp("cache"), RULES)
