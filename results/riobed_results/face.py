# SPDX-License-Identifier: Apache-2.0
"""The public names of a package, each imported when it is first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def face(
    package: str, home: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package; `home` maps modules to names in them."""
    of_name = {name: module for module, names in home.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in of_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(of_name[name]), name)

    return get, lambda: sorted(of_name), sorted(of_name)
