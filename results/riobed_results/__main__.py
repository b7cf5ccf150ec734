# SPDX-License-Identifier: Apache-2.0
"""`python -m riobed_results`: the commands that read results, without the rest of riobed."""

import sys

import typer

from riobed_results.cli import mount
from riobed_results.errors import StoreError

if __name__ == "__main__":
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    mount(app)
    try:
        app()
    except StoreError as error:
        print(f"riobed: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
