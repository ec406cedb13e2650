"""Action plugin: what the user asks for, checked, as a plan. A door to treeline.request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars

REPOSITORY = Path(__file__).resolve().parents[2]


class ActionModule(ActionBase):
    """Runs on the controller only; no connection is opened."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset(
        {
            "variables",
            "extra_vars_names",
            "known_names",
            "rows_prior",
            "group",
            "group_hosts",
            "found_units",
            "forecast_load_s",
            "forecast_measure_s",
            "results_dir",
        }
    )

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the plan, or fail with everything that is wrong with the variables."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        try:
            from treeline import request
            from treeline.plain import to_plain
            from treeline.request import public
        except ImportError as error:
            raise AnsibleActionFail(
                f"the treeline package cannot be imported by this ansible-playbook ({error}). "
                "Run `make setup` and use .venv/bin/ansible-playbook"
            ) from error

        args = to_plain(self._task.args)
        extra_vars = to_plain(load_extra_vars(self._loader))
        stray = extra_vars.pop("_raw_params", None)
        usual = request.Rates()
        around = request.Surroundings(
            extra_vars_names=[*extra_vars, *(args.get("extra_vars_names") or [])],
            known_names=[*public.role_variables(REPOSITORY / "roles"), *(args.get("known_names") or [])],
            rows_prior=int(_number(args, "rows_prior", request.DEFAULT_ROWS_PRIOR)),
            group=args.get("group") or "sglang",
            group_hosts=args.get("group_hosts"),
            folders=[Path.cwd(), REPOSITORY, REPOSITORY / "playbooks" / "plans"],
            found_units=args.get("found_units") or [],
            rates=_measured(args)
            or request.Rates(
                load_s=_number(args, "forecast_load_s", usual.load_s),
                measure_s=_number(args, "forecast_measure_s", usual.measure_s),
            ),
            stray_words=stray,
        )
        if (broken := _broken_catalogue()) is not None:
            return result | {"failed": True, "msg": broken}
        try:
            outcome = request.understand(args.get("variables") or {}, around)
        except request.RequestError as error:
            return result | {"failed": True, "msg": str(error)}
        for line in (*outcome.forecast, *(f"Note: {note}" for note in outcome.notes)):
            self._display.display(line)
        if self._task.check_mode:
            from treeline.plan.rehearse import rehearsal_lines

            for line in rehearsal_lines(outcome.plan):
                self._display.display(line)
        return result | {"changed": False} | outcome.to_dict()


def _broken_catalogue() -> str | None:
    """Why the user's own failure classes cannot be used, before a trial needs them; None: they can."""
    from treeline.signatures.catalogue import ENVIRONMENT, CatalogueError, load_catalogue

    try:
        load_catalogue()
    except (CatalogueError, OSError) as error:
        return f"{ENVIRONMENT}: {error}. Check the file with `treeline signatures test FILE`"
    return None


def _measured(args: dict[str, Any]) -> Any:
    """What trials on these hosts took in earlier sweeps; None where nothing is on record."""
    if not args.get("results_dir"):
        return None
    from treeline.history_rates import rates_of_results

    return rates_of_results(Path(args["results_dir"]), args.get("group_hosts"))


def _number(args: dict[str, Any], name: str, default: float) -> float:
    """A number of the playbook's own, not negative."""
    value = args.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1
    if isinstance(value, bool) or not 0 <= number < float("inf"):
        raise AnsibleActionFail(f"treeline_request: {name}: {value!r} is not a number >= 0")
    return number
