# SPDX-License-Identifier: Apache-2.0
"""docs/add-fault-class.md is true: the class in it works, with all that is said to come of itself."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from riobed import faults
from riobed.faults import Catalogue, SiteFilter, commands
from riobed.faults.classes.rules import RULES
from riobed.faults.classes.text import text_class
from riobed.products import CHECKOUT

DOCUMENT = CHECKOUT / "docs" / "add-fault-class.md"


@pytest.fixture(scope="module")
def code() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(block)


def test_the_class_of_the_document_works(
    code: str, vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope: dict[str, Any] = {}
    exec(compile(code, str(DOCUMENT), "exec"), scope)
    rule = scope["WRONG_CONSTANT"]
    fault_class = text_class(rule)
    before = Catalogue.open(vmlinux, tmp_path, RULES)
    catalogue = Catalogue.open(vmlinux, tmp_path, rules=RULES | {rule.name: rule})

    drawn = fault_class.draw(catalogue, random.Random("1/wrong_constant/0"), catalogue.site_count(rule.name))
    assert {(f.function, f.old_asm, f.new_asm, f.why) for f in drawn} == {
        ("answer", "mov eax, 0x2a", "mov eax, 0x2b", "a constant for a register")
    }
    assert fault_class.draw(catalogue, random.Random("1/wrong_constant/0"), 1) == drawn

    monkeypatch.setitem(faults.CLASSES, rule.name, fault_class)
    assert commands(drawn) == f"text 0 {drawn[0].address:x} b82a000000 b82b000000 1\ngo\n"
    narrow = catalogue.filtered(SiteFilter(functions=("many_*",)))
    assert narrow.site_count(rule.name) == 0
    assert catalogue.excluded_sites(rule.name) == {"function does not decode": 1}
    for name in RULES:
        assert catalogue.site_count(name) == before.site_count(name)


def test_what_the_document_links_to_is_there() -> None:
    for name in re.findall(r"\]\(([^)]+)\)", DOCUMENT.read_text()):
        assert (DOCUMENT.parent / name).exists(), name
