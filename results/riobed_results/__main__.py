# SPDX-License-Identifier: Apache-2.0
"""`python -m riobed_results`: the commands that read results, without the rest of riobed."""

import typer

from riobed_results.cli import mount, run

if __name__ == "__main__":
    app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
    mount(app)
    run(app)
