# SPDX-License-Identifier: Apache-2.0
"""What YAML leaves open, and we do not."""

import pytest
from riobed.errors import UsageError
from riobed.yamltext import parse_yaml


@pytest.mark.parametrize("text", ["a: 1\na: 2", "x: {b: 1, b: 1}", "- {c: 1}\n- {c: 1, 'c': 2}"])
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="twice"):
        parse_yaml(text, "file")


def test_a_merged_key_may_be_overridden() -> None:
    assert parse_yaml("a: &a {k: 1, l: 2}\nb: {<<: *a, k: 3}", "file")["b"] == {"k": 3, "l": 2}


@pytest.mark.parametrize("text", [
    "name: [", "a: 1\n\tb: []", "name: !!python/object:os.system x", "? [a]\n: 1", "seed: 2024-13-45",
    f"seed: {'1' * 5000}", "[" * 500, "name: \0", b"name: \xff\xfe",
])  # fmt: skip
def test_what_is_no_yaml_is_told_in_one_line(text: str | bytes) -> None:
    with pytest.raises(UsageError, match=r"^file: not YAML: [^\n]+$"):
        parse_yaml(text, "file")
