"""What preflight found is shown before the first restart."""

from __future__ import annotations

from treeline.preflight_view import lines


def test_what_goes_down_what_is_unknown_and_what_differs() -> None:
    shown = lines(
        {
            "services_down": ["sglang.service", "front.service"],
            "notes": ["whether it has requests is not available"],
            "differences": {"only_found": ["[Service] Nice=-5"], "only_trial": [f"x{n}" for n in range(20)]},
        }
    )
    assert shown[0] == "down during the trials: sglang.service, front.service"
    assert "note: whether it has requests is not available" in shown
    assert "the found unit alone has: [Service] Nice=-5" in shown
    assert shown[-1] == "the trial alone has 8 more directives: see preflight.json of the sweep"


def test_an_idle_host_says_so() -> None:
    assert lines({}) == ["down during the trials: nothing, no found service is running"]
