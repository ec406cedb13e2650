"""Treeline's reference engine: SGLang's surface, a real draft tree, a real n-gram model, simulated timing."""

from .version import __version__

__all__ = ["__version__"]
