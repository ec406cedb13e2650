"""A finished plot: it saves itself, and shows itself in a notebook and in a report."""

from __future__ import annotations

import html
import io
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from treeline.plots import style

_ID = re.compile(r' id="([^"]+)"')
_MADE = re.compile(r"(?<=[\"#])[a-zA-Z][0-9a-f]{10}(?=[\")])")
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_USED = re.compile(r'(?:url\(#|href="#)([^")]+)')


@dataclass(frozen=True)
class Drawn:
    """A plot with its name (for files), its title and a sentence for people who cannot see it."""

    name: str
    title: str
    alt: str
    figure: Figure
    empty: bool = False

    def svg(self) -> str:
        """Return the plot as an SVG document; the same plot gives the same text."""
        stream = io.StringIO()
        with mpl.rc_context(style.RC):
            self.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
        return _numbered(stream.getvalue())

    def png(self, dpi: int = 150) -> bytes:
        """Return the plot as PNG."""
        stream = io.BytesIO()
        with mpl.rc_context(style.RC):
            self.figure.savefig(stream, format="png", dpi=dpi)
        return stream.getvalue()

    def save(self, folder: Path) -> list[Path]:
        """Write ``<name>.svg`` and ``<name>.png`` into a folder. Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        vector, pixels = folder / f"{self.name}.svg", folder / f"{self.name}.png"
        vector.write_text(self.svg(), encoding="utf-8")
        pixels.write_bytes(self.png())
        return [vector, pixels]

    def inline(self) -> str:
        """Return the SVG for an HTML page: unique ids, a text alternative, the colours of its theme."""
        text = self.svg()
        text = _METADATA.sub("", text[text.index("<svg") :])
        used = set(_USED.findall(text))

        def renamed(found: re.Match[str]) -> str:
            return f' id="{self.name}-{found[1]}"' if found[1] in used else ""

        text = _ID.sub(renamed, text)
        text = _USED.sub(lambda found: found[0].replace(found[1], f"{self.name}-{found[1]}"), text)
        for colour, variable in ((style.INK, "ink"), (style.PAPER, "paper"), (style.GRID, "line")):
            text = text.replace(colour, f"var(--{variable}, {colour})")
        label = html.escape(f"{self.title}. {self.alt}", quote=True)
        return text.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)

    def _repr_html_(self) -> str:
        return f'<figure style="max-width: 60rem">{self.inline()}</figure>'


def _numbered(svg: str) -> str:
    """Return the document with ids that are numbers: matplotlib's are addresses, other ones in each run."""
    names = {name: f"i{number}" for number, name in enumerate(dict.fromkeys(_MADE.findall(svg)))}
    return _MADE.sub(lambda found: names[found[0]], svg) if names else svg


def draw(function: Callable[..., Drawn]) -> Callable[..., Drawn]:
    """Decorate a plot's function: it draws in the one style, whatever else the process has set."""

    def wrapped(*arguments: Any, **named: Any) -> Drawn:
        with mpl.rc_context(style.RC):
            return function(*arguments, **named)

    wrapped.__doc__, wrapped.__name__ = function.__doc__, function.__name__
    return wrapped


def nothing(name: str, title: str, why: str) -> Drawn:
    """Return a small plot that says in words what there is nothing of."""
    figure = style.figure(7.5, 1.1)
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    figure.text(0.01, 0.3, textwrap.fill(why, 110), ha="left", va="center", color=style.FAINT)
    return Drawn(name, title, why, figure, empty=True)


def headed(figure: Figure, title: str) -> None:
    """Put a plot's title at its top left."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")


def simulated(frame: pd.DataFrame) -> bool:
    """Return whether any row rests on simulated timing."""
    return bool("simulated" in frame and frame["simulated"].astype("boolean").fillna(False).any())
