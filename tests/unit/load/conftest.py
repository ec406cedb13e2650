"""A peer for the load client, and a spec for a load against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from misbehaving_peer import Peer
from treeline_target import load_spec

TEXT = "\n".join(
    f"line {number}: def function_{number}(value): return value + {number}" for number in range(400)
)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as made:
        yield made


@pytest.fixture
def make_spec(peer: Peer, tmp_path: Path) -> Callable[..., load_spec.Spec]:
    """A small load against the peer; keyword arguments change it."""

    def make(**changes: Any) -> load_spec.Spec:
        values: dict[str, Any] = {
            "base_url": peer.address,
            "client_keys": [load_spec.ClientKey(4), load_spec.ClientKey(1)],
            "canaries": [],
            "prompts": [TEXT],
            "prompts_seed": "seed",
            "out_dir": str(tmp_path / "evidence"),
            "max_tokens": 12,
            "limits": load_spec.Limits(connect_s=1, chunk_s=0.4, request_s=1.5, total_s=20),
        }
        return load_spec.Spec(**{**values, **changes})

    return make
