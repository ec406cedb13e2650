"""The restart key in a frame: its columns, and what people call it."""

from __future__ import annotations

import pandas as pd

from treeline.keys import KEY_FIELDS, RestartKey


def key_of(row: pd.Series) -> RestartKey:
    """Return the restart key of a row with KEY_FIELDS."""
    return RestartKey(
        budget=int(row["budget"]),
        topk=int(row["topk"]),
        maxreq=int(row["maxreq"]),
        block_size=int(row["block_size"]),
        graphs=bool(row["graphs"]),
        graph_max_bs=None if pd.isna(row["graph_max_bs"]) else int(row["graph_max_bs"]),
        attention_backend=None if pd.isna(row["attention_backend"]) else str(row["attention_backend"]),
    )


def with_key_texts(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with ``cell``, ``rows``, ``slice`` and ``label`` of each restart key behind its key.

    Every distinct key is spelled once, however many rows have it.
    """
    keys = frame[list(KEY_FIELDS)].drop_duplicates()
    found = [key_of(row) for _, row in keys.iterrows()]
    texts = keys.assign(
        cell=pd.Series([key.slug for key in found], index=keys.index, dtype="str"),
        rows=pd.Series([key.rows for key in found], index=keys.index, dtype="Int64"),
        slice=pd.Series([key.slice_label for key in found], index=keys.index, dtype="str"),
        label=pd.Series([key.label for key in found], index=keys.index, dtype="str"),
    )
    merged = frame.drop(columns=["cell", "rows", "slice", "label"], errors="ignore").merge(
        texts, on=list(KEY_FIELDS), how="left"
    )
    rest = [name for name in merged.columns if name not in (*KEY_FIELDS, "cell", "rows", "slice", "label")]
    return merged[[*KEY_FIELDS, "cell", "rows", "slice", "label", *rest]]
