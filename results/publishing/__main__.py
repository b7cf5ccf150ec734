# SPDX-License-Identifier: Apache-2.0
"""`python -m publishing`."""

from riobed_results.cli import run

from publishing.cli import app

if __name__ == "__main__":
    run(app)
