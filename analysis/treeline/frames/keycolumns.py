"""The restart key in a frame: its columns, and what people call it."""

from __future__ import annotations

import pandas as pd

from treeline.keys import USUAL_BLOCK_SIZE, RestartKey

KEY_COLUMNS = ("budget", "topk", "maxreq", "block_size", "graphs", "graph_max_bs", "attention_backend")
SLICE_COLUMNS = ("topk", "block_size", "graphs", "graph_max_bs", "attention_backend")
"""What a frontier shares: everything but budget and maxreq."""


def key_of(row: pd.Series) -> RestartKey:
    """Return the restart key of a row with KEY_COLUMNS."""
    return RestartKey(
        budget=int(row["budget"]),
        topk=int(row["topk"]),
        maxreq=int(row["maxreq"]),
        block_size=int(row["block_size"]),
        graphs=bool(row["graphs"]),
        graph_max_bs=None if pd.isna(row["graph_max_bs"]) else int(row["graph_max_bs"]),
        attention_backend=None if pd.isna(row["attention_backend"]) else str(row["attention_backend"]),
    )


def slice_of(key: RestartKey) -> str:
    """Return the slice of a key for people, such as ``topk 8 graphs on``."""
    parts = [f"topk {key.topk}"]
    if key.block_size != USUAL_BLOCK_SIZE:
        parts.append(f"block size {key.block_size}")
    parts.append(f"graphs {'on' if key.graphs else 'off'}")
    if key.graph_max_bs is not None:
        parts.append(f"graph cap {key.graph_max_bs}")
    if key.attention_backend is not None:
        parts.append(f"attention {key.attention_backend}")
    return " ".join(parts)


def with_key_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with ``cell``, ``rows``, ``slice`` and ``label`` of each restart key behind its key.

    Every distinct key is spelled once, however many rows have it.
    """
    keys = frame[list(KEY_COLUMNS)].drop_duplicates()
    found = [key_of(row) for _, row in keys.iterrows()]
    texts = keys.assign(
        cell=pd.Series([key.slug for key in found], index=keys.index, dtype="str"),
        rows=pd.Series([key.rows for key in found], index=keys.index, dtype="Int64"),
        slice=pd.Series([slice_of(key) for key in found], index=keys.index, dtype="str"),
        label=pd.Series([key.label for key in found], index=keys.index, dtype="str"),
    )
    merged = frame.drop(columns=["cell", "rows", "slice", "label"], errors="ignore").merge(
        texts, on=list(KEY_COLUMNS), how="left"
    )
    rest = [name for name in merged.columns if name not in (*KEY_COLUMNS, "cell", "rows", "slice", "label")]
    return merged[[*KEY_COLUMNS, "cell", "rows", "slice", "label", *rest]]
