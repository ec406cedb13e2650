"""Secrets, addresses, relations, processes, tables: the small pure parts."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from treeline_target import (
    cgroups,
    engine,
    found_units,
    listeners,
    prove,
    redact,
    served,
    snapshot,
    traffic,
    units,
)
from treeline_target.files import Paths


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["x", "--api-key", "a", "--port", "1"], ["x", "--api-key", "***", "--port", "1"]),
        (["x", "--api-key=a", "HF_TOKEN=b", "A=1"], ["x", "--api-key=***", "HF_TOKEN=***", "A=1"]),
        (["x", "--max-total-tokens", "5"], ["x", "--max-total-tokens", "5"]),
        (["x", "--speculative-num-draft-tokens", "8"], ["x", "--speculative-num-draft-tokens", "8"]),
        (
            ["x", "--ssl-keyfile", "/k", "--ssl-keyfile-password", "p"],
            ["x", "--ssl-keyfile", "/k", "--ssl-keyfile-password", "***"],
        ),
        (["x", "--api-key-file", "/k"], ["x", "--api-key-file", "/k"]),
        (["x", "--api-key"], ["x", "--api-key"]),
        (["x", "--admin-token", "a", "ADMIN_TOKEN=b"], ["x", "--admin-token", "***", "ADMIN_TOKEN=***"]),
    ],
)
def test_command_lines_hide_secrets(words: list[str], shown: list[str]) -> None:
    assert redact.argv(words) == shown


@pytest.mark.parametrize(
    "line",
    [
        "token='{}'",
        "auth_token={} x",
        "passwd={}, x",
        "credential={}",
        "passphrase: {} x",
        "admin_token={}",
        "run --api-key {} --port 1",
        "run --hf-token={} --port 1",
        "argv: ['--api-key', '{}', '--port', '1']",
        'argv: [\\"--api-key\\", \\"{}\\", \\"--port\\"]',
        "OPENAI_API_KEY={} A=1",
        "Environment=HF_TOKEN={} A=1",
        "GET /x?token={}&y=1",
        "Authorization: Bearer {}",
        '{{"MESSAGE":"password={}","_PID":"1"}}',
        '{{"MESSAGE":"{{\\"secret\\": \\"{}\\"}}","_PID":"1"}}',
    ],
)
def test_a_line_hides_the_values_of_secret_names(line: str) -> None:
    assert redact.text(line.format("Zx81").encode()) == line.format("***").encode()


def test_a_quoted_secret_ends_where_its_quote_does() -> None:
    assert redact.text(rb'{"MESSAGE":"password=\"a\\\"b c\" x","_PID":"1"}') == (
        rb'{"MESSAGE":"password=\"***\" x","_PID":"1"}'
    )
    assert redact.text(b"api_key='un\"x', y") == b"api_key='***', y"
    assert redact.text(b'{"MESSAGE":"api_key=\'open","_COMM":"it\'s"}') == (
        b'{"MESSAGE":"api_key=\'***","_COMM":"it\'s"}'
    )


@pytest.mark.parametrize(
    "line",
    [
        "max_total_num_tokens=412330, x",
        "Decode batch, #running-req: 1, #token: 99, token usage: 0.1, gen throughput (token/s): 10.0",
        "Prefill batch, #new-seq: 1, #new-token: 512, #cached-token: 0",
        "tokenizer_path='/m', num_tokens_per_req=17, tokenizer='x'",
        "KV Cache is allocated. #tokens: 9, KV size: 1 GB",
        "sorted(rows, key=lambda row: row.at)",
        "KeyError: 'api_key'",
        "api_key=None, hf_token=null, eos_token='</s>', skip --api-key --port 1",
        '{"key": "c32-x4000", "completion_tokens": "5", "cached_tokens": 7}',
        '{"MESSAGE":"secret=","_PID":"1"}',
        "missing keys: ['a']",
    ],
)
def test_a_line_keeps_what_only_looks_like_a_secret(line: str) -> None:
    assert redact.text(line.encode()) == line.encode()


def test_fields_hide_secrets_at_any_depth() -> None:
    value = {
        "api_key": "a",
        "n": {"hf_token": "b", "max_total_tokens": 5, "api_key": None},
        "l": ["--api-key", "c"],
    }
    assert redact.fields(value) == {
        "api_key": "***",
        "n": {"hf_token": "***", "max_total_tokens": 5, "api_key": None},
        "l": ["--api-key", "***"],
    }
    assert redact.digest(["a"]) == redact.digest(["a"]) != redact.digest(["b"])


@pytest.mark.parametrize(
    ("argv", "configured", "url"),
    [
        (["sglang", "--port", "30000"], None, "http://127.0.0.1:30000"),
        (["sglang", "--host=0.0.0.0", "--port=30001"], None, "http://127.0.0.1:30001"),
        (["sglang", "--host", "::", "--port", "1", "--port", "2"], None, "http://[::1]:2"),
        (["sglang", "--host", "fe80::1", "--port", "1"], None, "http://[fe80::1]:1"),
        (["sglang", "--port", "1"], "http://x:9", "http://127.0.0.1:1"),
        (["other"], "http://x:9/", "http://x:9"),
        ([], None, None),
        (["python3", "-m", "sglang.launch_server", "--tp", "8"], None, "http://127.0.0.1:30000"),
        (["/opt/x/bin/python", "/opt/x/bin/sglang", "serve", "--host", "::"], None, "http://[::1]:30000"),
        (["python3", "-m", "treeline_reference_engine"], "http://x:9", "http://x:9"),
        (["python3", "-m", "other", "serve"], None, None),
    ],
)
def test_where_a_service_is_asked(argv: list[str], configured: str | None, url: str | None) -> None:
    assert served.base_url(argv, configured) == url


def test_a_configuration_file_tells_where_a_service_is_asked(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("model-path: /m\nhost: 0.0.0.0\nport: '31000' # ours\napi-key: sesame\n")
    argv = ["python3", "-m", "sglang.launch_server", "--config", str(config)]
    assert served.base_url(argv) == "http://127.0.0.1:31000"
    assert served.base_url([*argv, "--port", "1"]) == "http://127.0.0.1:1"
    config.write_text("model-path: /m\n")
    assert served.base_url(argv) == "http://127.0.0.1:30000"


def test_what_a_scheduler_measured_is_no_argument() -> None:
    # SGLang 0.5.23 puts scheduler_info flat among the arguments.
    before = {"tp_size": 8, "max_total_num_tokens": 412330, "max_req_input_len": 131066, "status": "ready"}
    now = {**before, "max_total_num_tokens": 412297, "max_req_input_len": 131033, "kv_event_sources": []}
    assert served.differences(before, now) == []
    assert served.differences(before, {**now, "tp_size": 4}) == ["tp_size: was 8, is 4"]


def test_served_arguments_are_compared_without_what_differs_between_lives() -> None:
    before = {
        "tp_size": 8,
        "random_seed": 1,
        "startup_time": 2.0,
        "internal_states": [{"x": 1}],
        "gone": None,
    }
    now = {"tp_size": 4, "random_seed": 9, "startup_time": 3.0, "internal_states": [], "new": 1}
    assert served.differences(before, dict(before, random_seed=5)) == []
    assert served.differences(before, now) == [
        "gone: was None, is absent",
        "new: was absent, is 1",
        "tp_size: was 8, is 4",
    ]


def test_everything_that_hangs_on_the_found_unit_is_walked_to() -> None:
    world = {
        "engine.service": {
            "RequiredBy": "router.service",
            "TriggeredBy": "engine.socket",
            "UpheldBy": "guard.service",
        },
        "router.service": {
            "BoundBy": "edge.service",
            "TriggeredBy": "router.path",
            "RequiredBy": "engine.service",
        },
        "engine.socket": {"RequiredBy": "proxy.service"},
        "edge.service": {"ConsistsOf": "log.service router.service", "RequisiteOf": "check.service"},
    }
    seen = units.related(["engine.service"], lambda unit: world.get(unit, {}))
    assert seen.dependents == (
        "router.service",
        "edge.service",
        "proxy.service",
        "check.service",
        "log.service",
    )
    assert seen.triggers == ("engine.socket", "router.path")
    assert seen.upholders == {"engine.service": ("guard.service",)}


def test_bare_names_are_services() -> None:
    assert [units.full_name(name) for name in ("a", "a.service", "b.socket", "c@1", "v1.2")] == [
        *("a.service", "a.service", "b.socket", "c@1.service", "v1.2.service"),
    ]


def test_own_command_line_and_that_of_nobody() -> None:
    argv = units.argv_of(os.getpid())
    assert argv is not None
    assert Path(argv[0]).name.startswith("python") or "pytest" in argv[0]
    assert units.argv_of(2**22 + 1) is None


@pytest.mark.parametrize(
    ("text", "root", "unit"),
    [
        ("0::/system.slice/engine.service\n", "", "engine.service"),
        ("0::/system.slice/engine.service/worker\n", "", "engine.service"),
        ("0::/system.slice/system-engine.slice/engine@1.service\n", "", "engine@1.service"),
        ("0::/system.slice/docker-1f2e.scope\n", "", "docker-1f2e.scope"),
        ("0::/user.slice/user-0.slice/session-3.scope\n", "", "session-3.scope"),
        ("0::/user.slice/user-0.slice/user@0.service/app.slice/x.service\n", "", "user@0.service"),
        ("12:cpu:/x\n1:name=systemd:/system.slice/a.service\n0::/\n", "", "a.service"),
        (
            "0::/machine.slice/box.scope/payload/system.slice/a.service\n",
            "/machine.slice/box.scope/payload",
            "a.service",
        ),
        ("0::/docker/1f2e\n", "", None),
        ("0::/\n", "", None),
        ("", "", None),
    ],
)
def test_unit_of_a_control_group(text: str, root: str, unit: str | None) -> None:
    assert cgroups.unit_of(cgroups.systemd_path(text), root) == unit


def test_listeners_are_found_with_their_process() -> None:
    with socket.socket() as server, socket.socket(socket.AF_INET6) as other:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        found = listeners.find(port)
        assert [holder.pid for listener in found for holder in listener.holders] == [os.getpid()]
        unit = found[0].holders[0].unit
        assert listeners.strangers(found, {unit or "?"}) == ([] if unit else [str(found[0].holders[0])])
        assert f"pid {os.getpid()} (" in listeners.strangers(found, set())[0]
        other.bind(("::1", 0))
        other.listen()
        assert len(listeners.find(other.getsockname()[1])) == 1
    assert listeners.find(port) == []


def test_a_socket_of_process_1_belongs_to_its_socket_unit() -> None:
    init = cgroups.Process(1, "init", "/init.scope", "init.scope")
    engine_process = cgroups.Process(7, "engine", "/system.slice/engine.service", "engine.service")
    idle, served_now = listeners.Listener(1, 2, (init,)), listeners.Listener(1, 2, (init, engine_process))
    ours = {"engine.service", "engine.socket"}
    assert listeners.strangers([idle], ours, lambda port: "engine.socket") == []
    assert listeners.strangers([served_now], ours, lambda port: None) == []
    assert listeners.strangers([idle], ours, lambda port: "x.socket") == ["systemd (pid 1) for x.socket"]
    assert listeners.strangers([listeners.Listener(1, 2, ())], ours) == [
        "a process that cannot be seen (socket inode 2)"
    ]
    shown = (
        "Id=a.socket\nListen=/run/a (Stream)\n\nId=b.socket\nListen=[::]:22 (S)\nListen=127.0.0.1:80 (S)\n"
    )
    assert listeners.match_socket(shown, 80) == "b.socket"
    assert listeners.match_socket(shown, 8) is None


def test_traffic_answers_that_tell_nothing() -> None:
    assert traffic.parse_metrics("sglang:num_used_tokens 5\n") is None
    assert traffic.parse_load(
        {"loads": [{"num_running_reqs": 1}, {"num_running_reqs": 2}]}
    ) == traffic.Traffic(3, 0)
    assert traffic.parse_load({"x": 1}) is None
    assert traffic.parse_load("x") is None


def test_environment_files_and_ports_are_read_as_systemd_prints_them() -> None:
    assert snapshot.environment_files("/etc/a (ignore_errors=no)\n/etc/b c (ignore_errors=yes)\n") == [
        "/etc/a",
        "/etc/b c",
    ]
    assert found_units.port_of("http://127.0.0.1:30000") == 30000
    assert found_units.port_of(None) is None


def test_a_snapshot_for_other_units_or_of_another_version_is_refused(tmp_path: Path) -> None:
    found = {"sweep_id": "s1", "trial_unit": "t.service", "found": [{"unit": "a.service"}]}
    snapshot.check_same(found, ["a.service"], "t.service")
    for names, trial in (
        (["a.service", "b.service"], "t.service"),
        (["b.service"], "t.service"),
        (["a.service"], "u.service"),
    ):
        with pytest.raises(snapshot.SnapshotError, match=r"snapshot of sweep s1, which covers a\.service"):
            snapshot.check_same(found, names, trial)
    paths = Paths(state=tmp_path)
    assert snapshot.read(paths) is None
    for text, said in (
        ('{"schema_version": 99, "found": []}', "another version"),
        ("{", "does not hold JSON"),
    ):
        paths.snapshot.write_text(text)
        with pytest.raises(snapshot.SnapshotError, match=said):
            snapshot.read(paths)
        with pytest.raises(snapshot.SnapshotError):
            snapshot.take(["a.service"], "t.service", {}, 1, {}, paths=paths)


def test_changed_files_of_a_found_unit_are_named(tmp_path: Path) -> None:
    unit = tmp_path / "a.service"
    unit.write_text("[Service]\n")
    entry = {
        "fragment": snapshot._hashed(str(unit)),
        "drop_ins": [],
        "environment_files": [snapshot._hashed("/absent")],
    }
    assert snapshot.changed_files(entry) == []
    unit.write_text("[Service]\nNice=1\n")
    assert snapshot.changed_files(entry) == [str(unit)]


@pytest.mark.parametrize(
    ("shown", "may_activate", "verdict"),
    [
        ({"ActiveState": "active"}, False, None),
        ({"ActiveState": "activating", "SubState": "start"}, True, None),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, False, prove.WAIT),
        ({"ActiveState": "deactivating"}, True, prove.WAIT),
        ({"ActiveState": "failed", "LoadState": "loaded", "Result": "exit-code"}, False, prove.DOWN),
        ({"ActiveState": "inactive", "LoadState": "masked"}, False, prove.HOPELESS),
        ({"ActiveState": "inactive", "LoadState": "not-found"}, True, prove.HOPELESS),
    ],
)
def test_how_a_unit_stands(shown: dict[str, str], may_activate: bool, verdict: str | None) -> None:
    look = prove._standing(shown, may_activate)
    assert (look.verdict if look else None) == verdict


def test_engine_build_comes_from_the_interpreter_asked() -> None:
    assert engine.build(sys.executable, "pytest") == f"pytest {pytest.__version__}"
    with pytest.raises(engine.EngineError, match="has no package no-such-thing"):
        engine.build(sys.executable, "no-such-thing")
    with pytest.raises(engine.EngineError, match="/absent/python"):
        engine.build("/absent/python", "pytest")
    assert engine.name_of("treeline-reference-engine") == "reference"
    assert engine.name_of("sglang") == "sglang"


def test_model_identity_follows_names_sizes_and_config(tmp_path: Path) -> None:
    model = tmp_path / "kimi"
    model.mkdir()
    (model / "config.json").write_text('{"a": 1}')
    (model / "w.safetensors").write_text("12")
    first = engine.model_identity([str(model)])
    assert first is not None
    assert first.startswith("kimi#")
    assert engine.model_identity([str(model)]) == first
    (model / "config.json").write_text('{"a": 2}')
    second = engine.model_identity([str(model)])
    (model / "w.safetensors").write_text("123")
    assert len({first, second, engine.model_identity([str(model)])}) == 3
    assert engine.model_identity([]) is None
