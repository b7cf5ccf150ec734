# SPDX-License-Identifier: Apache-2.0
"""YAML as riobed reads it: a key that stands twice in a mapping is refused, not overridden."""

from typing import Any

import yaml

from riobed.errors import UsageError


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        # Here and not where it is constructed: a key may override one that comes by `<<`.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (name := (key.tag, key.value)) in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {key.value!r} stands twice", problem_mark=key.start_mark
                    )
                seen.add(name)
        return node


def parse_yaml(data: str | bytes, what: str) -> Any:
    """The value of a YAML text; UsageError in one line, which begins with `what`, if there is none."""
    try:
        return yaml.load(data.decode() if isinstance(data, bytes) else data, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{what}: not YAML: {' '.join(str(error).split())}") from None
