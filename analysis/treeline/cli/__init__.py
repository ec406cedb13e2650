"""The command `treeline`: look at sweeps and logs without Ansible.

Only click is imported here. A command lives in a module of its own, which is imported when it is called, and
imports what it needs when it runs: `treeline --help` answers at once.
"""

from __future__ import annotations

from importlib import import_module

import click

# Command -> module under treeline.cli that holds it as `command`, and its line in the list of commands.
COMMANDS = {
    "classify": ("classify", "Tell the cause of a failure from a log."),
    "compare": ("compare", "Say what changed from one sweep to another."),
    "export": ("export", "Write sweeps as CSV, Parquet or InferenceX-like rows."),
    "import": ("import_", "Read measurements of other tools, marked foreign."),
    "load": ("load", "Load a server and print what it gives."),
    "rollouts": ("rollouts", "List rollouts, or show one."),
    "frontier": ("frontier", "Try the search for the frontier against a table of the truth."),
    "plan": ("plan", "Forecast a plan without hosts, or tell the story of a sweep."),
    "report": ("report", "Print a sweep's table, write its summary and its report."),
    "signatures": ("signatures", "Look at the failure classes, or check your own."),
    "status": ("status", "Say how far a sweep is."),
    "sweep": ("sweep", "Run a sweep and watch it."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called; the list of commands imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"treeline.cli.{COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="treeline", prog_name="treeline")
def main() -> None:
    """Find how far a speculative-decoding draft tree can grow on your GPUs.

    Sweeps are run with `ansible-playbook sweep.yml`; this command looks at what they left.
    SWEEP is a sweep's folder, its id, or the beginning of its id; without it the newest is taken.
    """
