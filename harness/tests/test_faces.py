# SPDX-License-Identifier: Apache-2.0
"""The public names of both packages: listed once, found by completion, and known to type checkers."""

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import riobed
import riobed_results

packages = pytest.mark.parametrize("package", [riobed, riobed_results], ids=lambda package: package.__name__)


def checked(package: ModuleType) -> dict[str, str]:
    """What a type checker reads: the names, and where it finds them."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in found for alias in node.names}


@packages
def test_a_type_checker_knows_the_names_that_there_are(package: ModuleType) -> None:
    assert sorted(checked(package)) == package.__all__ == dir(package)


@packages
def test_a_name_is_what_a_type_checker_takes_it_for(package: ModuleType) -> None:
    for name, module in checked(package).items():
        assert getattr(package, name) is getattr(import_module(module), name)


@packages
def test_other_names_are_not_there(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'moons'"):
        _ = package.moons
