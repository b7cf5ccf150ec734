# SPDX-License-Identifier: Apache-2.0
"""Tables of the commands that list something, for a terminal of any width."""

from rich import box
from rich.console import Console
from rich.table import Table


def new_table(*columns: str) -> Table:
    """Make an empty table that folds cells that are too wide."""
    table = Table(*columns, box=box.HORIZONTALS, header_style="bold", title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    return table


def printed(table: Table, width: int) -> str:
    """Render the table in `width` columns, without trailing blanks."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return "".join(line.rstrip() + "\n" for line in capture.get().splitlines())
