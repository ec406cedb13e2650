"""Exact statements about counts."""

from __future__ import annotations

from scipy import stats


def clopper_pearson(hits: int, of: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact bounds of a share, 0..1. Raises ValueError when ``hits`` is not within 0..``of``."""
    bounds = stats.binomtest(hits, of).proportion_ci(confidence_level=confidence, method="exact")
    return float(bounds.low), float(bounds.high)


def sign_test(wins: int, losses: int) -> float:
    """Two-sided p of the paired sign test; ties are left out by the caller. 1.0 where nothing differed."""
    of = wins + losses
    return 1.0 if of == 0 else float(stats.binomtest(wins, of).pvalue)
