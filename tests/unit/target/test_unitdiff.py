"""The directive comparison between the found unit and the trial."""

from __future__ import annotations

from treeline_target import unitdiff

FOUND = """# /etc/systemd/system/engine.service
[Unit]
Description=Engine
After=network-online.target nvidia.service

[Service]
User=sglang
Environment=A=1 "B=two words" HF_TOKEN=secret
EnvironmentFile=/etc/engine/env
ExecStart=/opt/python -m sglang.launch_server \\
  --model-path /models/kimi \\
  --port 30000 --tp=8 --enable-metrics --api-key hidden
LimitMEMLOCK=8M
DeviceAllow=/dev/nvidia0 rw
DeviceAllow=/dev/nvidia1 rw
; a comment
[Install]
WantedBy=multi-user.target

# /etc/systemd/system/engine.service.d/override.conf
[Service]
LimitMEMLOCK=infinity
Environment=
Environment=C=3
ExecStartPre=/bin/true
"""

TRIAL = """[Unit]
Description=Trial
After=network-online.target engine.service
Conflicts=engine.service
[Service]
User=sglang
Environment=C=3
ExecStart=/opt/python -m sglang.launch_server --tp 8 --model-path /models/kimi --port 31990
LimitMEMLOCK=infinity
DeviceAllow=/dev/nvidia0 rw
"""


def test_only_what_differs_is_listed_drop_ins_merged() -> None:
    difference = unitdiff.compare(FOUND, TRIAL)
    assert difference.only_found == [
        "[Unit] Description=Engine",
        "[Unit] After=nvidia.service",
        "[Service] EnvironmentFile=/etc/engine/env",
        "[Service] ExecStart: --port 30000",
        "[Service] ExecStart: --enable-metrics",
        "[Service] ExecStart: --api-key ***",
        "[Service] DeviceAllow=/dev/nvidia1 rw",
        "[Service] ExecStartPre: /bin/true",
    ]
    assert difference.only_trial == [
        "[Unit] Description=Trial",
        "[Unit] After=engine.service",
        "[Unit] Conflicts=engine.service",
        "[Service] ExecStart: --port 31990",
    ]


def test_a_unit_does_not_differ_from_itself() -> None:
    assert unitdiff.compare(FOUND, FOUND) == unitdiff.Difference([], [])


def test_secrets_do_not_show() -> None:
    text = "[Service]\nEnvironment=API_KEY=hidden PLAIN=1\nSetCredential=key:hidden\n"
    shown = unitdiff.compare(text, "").only_found
    assert shown == [
        *(
            "[Service] Environment=API_KEY=***",
            "[Service] Environment=PLAIN=1",
            "[Service] SetCredential=key:***",
        ),
    ]


def test_an_empty_assignment_clears_a_list_and_the_last_scalar_counts() -> None:
    text = (
        "[Service]\nExecStart=/bin/a\nExecStart=\nExecStart=/bin/b\nNice=1\nNice=2\nWants=x\n"
        "[Unit]\nWants=a b\nWants=\n"
    )
    assert unitdiff.lines(text) == ["[Service] ExecStart: /bin/b", "[Service] Nice=2", "[Service] Wants=x"]


def test_unbalanced_quotes_are_no_error() -> None:
    assert unitdiff.lines('[Service]\nExecStart=/bin/a --x "y\n') == [
        *("[Service] ExecStart: /bin/a", '[Service] ExecStart: --x "y'),
    ]
