"""Programs that answer like nvidia-smi, written for one test each, and rows as real ones print them."""

from __future__ import annotations

from pathlib import Path

# The fields of one B300 (driver 580) and the answers of others, from public reports; uuids shortened by hand.
B300 = (
    "{index}, GPU-{index}f6e7a7c-7314-46f8-abc4-b88b36dcf3aa, NVIDIA B300 SXM6 AC, 580.95.05, "
    "00000000:1{index}:00.0, 275040, {used}, 195.63, 1100.00, 31, 0, 1920, 3996, 2032, Disabled, Enabled, "
    "0, 0, [N/A], [N/A], 0, No, No, None"
)
LOST = "3, [GPU is lost], NVIDIA B300 SXM6 AC, 580.95.05" + ", [GPU is lost]" * 20
RESET = (
    "0, GPU-0, NVIDIA A100-SXM4-80GB, 535.183.01, 00000000:07:00.0, 81920, 0, [GPU requires reset], 400.00, "
    "[GPU requires reset], [N/A], [N/A], [N/A], 1410, Disabled, Enabled, 2, 14, [N/A], [N/A], 2, Yes, No, "
    "Reset"
)


def tool(folder: Path, *lines: str, name: str = "gpu-tool") -> str:
    """An executable script; its path."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def answers(folder: Path, gpus: str, apps: str = "") -> str:
    """A tool that gives these two tables."""
    (folder / "gpus.csv").write_text(gpus, encoding="utf-8")
    (folder / "apps.csv").write_text(apps, encoding="utf-8")
    return tool(
        folder,
        'case "$1" in',
        f"  --query-gpu=*) cat {folder}/gpus.csv ;;",
        f"  --query-compute-apps=*) cat {folder}/apps.csv ;;",
        "  *) exit 4 ;;",
        "esac",
    )
