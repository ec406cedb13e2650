"""The one exception of this package."""

from __future__ import annotations


class LabError(Exception):
    """Something the user can act on; the message is complete and names what to change."""
