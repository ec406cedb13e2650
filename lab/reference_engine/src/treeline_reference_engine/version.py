"""The version. A wheel built for a host carries the hash of its sources after it (see artifacts.py)."""

__version__ = "0.1.0"
