# SPDX-License-Identifier: Apache-2.0
"""Tables of commands that list something, for a terminal of any width."""

from rich import box
from rich.console import Console
from rich.table import Table


def new_table(*columns: str) -> Table:
    """An empty table whose cells are folded where they do not fit."""
    table = Table(*columns, box=box.HORIZONTALS, header_style="bold", title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    return table


def printed(table: Table, width: int) -> str:
    """The table in so many columns, without blanks at the ends of its lines."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())
