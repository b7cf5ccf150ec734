# SPDX-License-Identifier: Apache-2.0
"""The YAML reader: a key that occurs twice in a mapping is an error, not an override."""

from typing import Any

import yaml

from riobed.errors import UsageError


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        # Checked before construction, because a key may override one that `<<` merges in.
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (name := (key.tag, key.value)) in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {key.value!r} is given twice", problem_mark=key.start_mark
                    )
                seen.add(name)
        return node


def parse_yaml(data: str | bytes, what: str) -> Any:
    """Parse a YAML text; UsageError with a line that starts with `what` if it is not valid."""
    try:
        return yaml.load(data.decode() if isinstance(data, bytes) else data, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UsageError(f"{what}: not YAML: {' '.join(str(error).split())}") from None
