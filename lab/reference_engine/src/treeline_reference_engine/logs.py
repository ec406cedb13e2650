"""Log lines in SGLang's shape: ``[2026-03-04 10:02:11 TP0] text``.

A record may bring ranks of its own: ``log.info(text, extra={"ranks": " DP1 TP0"})``.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

DATE_FORMAT = "%Y-%m-%d %H:%M:%S"


def configure(level: str, prefix: str = "") -> None:
    """Send everything to stderr; ``prefix`` is empty (the parent) or `` TP0`` (a scheduler)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("[%(asctime)s%(ranks)s] %(message)s", DATE_FORMAT, defaults={"ranks": prefix})
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def uvicorn_config(level: str) -> dict[str, Any]:
    """uvicorn's own lines, with the same time stamp in front."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "default": {
                "()": "uvicorn.logging.DefaultFormatter",
                "fmt": "[%(asctime)s] %(levelprefix)s %(message)s",
                "datefmt": DATE_FORMAT,
                "use_colors": False,
            },
            "access": {
                "()": "uvicorn.logging.AccessFormatter",
                "fmt": '[%(asctime)s] %(levelprefix)s %(client_addr)s - "%(request_line)s" %(status_code)s',
                "datefmt": DATE_FORMAT,
                "use_colors": False,
            },
        },
        "handlers": {
            "default": {
                "formatter": "default",
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
            },
            "access": {"formatter": "access", "class": "logging.StreamHandler", "stream": "ext://sys.stdout"},
        },
        "loggers": {
            "uvicorn": {"handlers": ["default"], "level": level.upper(), "propagate": False},
            "uvicorn.error": {"level": level.upper()},
            "uvicorn.access": {"handlers": ["access"], "level": level.upper(), "propagate": False},
        },
    }
