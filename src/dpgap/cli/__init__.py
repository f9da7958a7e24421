"""The command line: each file parses one verb, calls one function and prints what it returns."""

import sys
from collections.abc import Sequence

from dpgap.errors import DpgapError

BAD_INPUT = 2


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``dpgap``; bad input ends with one message and exit code 2, never with a traceback."""
    from tyro.extras import SubcommandApp

    from dpgap.cli.account import account
    from dpgap.cli.audit import audit
    from dpgap.cli.bound import bound
    from dpgap.cli.plan import plan
    from dpgap.cli.quickstart import quickstart
    from dpgap.cli.report import compare, report
    from dpgap.cli.runs import export, runs
    from dpgap.cli.train import train

    app = SubcommandApp()
    for command in (quickstart, bound, account, plan, train, audit, report, compare, runs, export):
        app.command(command)
    try:
        app.cli(
            prog="dpgap",
            description="How private is a training run, really? Proves eps_ub, measures eps_lb.",
            args=arguments,
        )
    except DpgapError as error:
        print(f"dpgap: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
