"""Failure signatures: from the journal of one service life to its first cause.

`classify_journal(source, alive=...)` is the door; the classes are data (`catalogue.yml`).
"""

from treeline.signatures.classify import classify_journal, classify_text
from treeline.signatures.verdict import LogVerdict

__all__ = ["LogVerdict", "classify_journal", "classify_text"]
