"""Train the model: python -m treeline_reference_engine.train --out DIR.

An n-gram model is trained by reading: the vocabulary is chosen and the text becomes token ids; the counts are
looked up from the ids (see model.py). The folder is left alone when it already holds the model of exactly
these inputs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from . import corpus
from .files import CONFIG_FILE, MODEL_FILE
from .model import FORMAT, NgramModel
from .tokenizer import EOS, Tokenizer

REPOSITORY = Path(__file__).resolve().parents[4]
CANARIES = REPOSITORY / "analysis/treeline/data/canaries.yml"
PROMPTS = REPOSITORY / "analysis/treeline/data/prompts"
ANSWERS = REPOSITORY / "lab/reference_engine/training/answers.yml"
LIBRARY_CHARACTERS = 1_400_000
VOCABULARY = 12_000


def training_text(
    library_characters: int, extra: list[Path], canaries: Path, prompts: Path
) -> corpus.TrainingText:
    """The whole training text. Raises OSError for a missing file."""
    texts: list[str] = []
    for path in [*sorted(prompts.glob("*.txt")), *extra]:
        texts += corpus.split_paragraphs(path.read_text(encoding="utf-8"))
    library = corpus.standard_library(library_characters)
    return corpus.collect(library, texts, corpus.canary_documents(canaries, ANSWERS))


def model_key(text: corpus.TrainingText) -> str:
    """Names a model: the text and the format."""
    return f"{FORMAT}-{text.key}"


def train(text: corpus.TrainingText, vocabulary: int = VOCABULARY) -> NgramModel:
    """The model of ``text``."""
    tokenizer = Tokenizer.train(text.documents, vocabulary)
    ids: list[int] = [EOS]
    for document in text.documents:
        ids += tokenizer.encode(document)
        ids.append(EOS)
    config = {
        "architectures": ["TreelineNgramForCausalLM"],
        "model_type": "treeline_ngram",
        "treeline_format": FORMAT,
        "treeline_key": model_key(text),
        "vocab_size": tokenizer.size,
        "training_tokens": len(ids),
        "max_position_embeddings": 131072,
    }
    return NgramModel(tokenizer, np.array(ids, dtype=np.uint16), config)


def train_into(folder: Path, text: corpus.TrainingText) -> bool:
    """Train into ``folder`` unless it holds this model already; True when something was written."""
    config = folder / CONFIG_FILE
    if (folder / MODEL_FILE).exists() and config.exists():
        try:
            if json.loads(config.read_text()).get("treeline_key") == model_key(text):
                return False
        except ValueError:
            pass  # a torn file: write it anew
    staged = folder.with_name(f".{folder.name}.{os.getpid()}")
    train(text).save(staged)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (MODEL_FILE, CONFIG_FILE):  # the config last: it vouches for the model
        (staged / name).replace(folder / name)
    staged.rmdir()
    return True


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m treeline_reference_engine.train", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for the model")
    parser.add_argument(
        "--text", type=Path, action="append", default=[], help="a further text file (repeatable)"
    )
    parser.add_argument("--canaries", type=Path, default=CANARIES)
    parser.add_argument("--prompts", type=Path, default=PROMPTS, help="folder of *.txt load prompts")
    parser.add_argument(
        "--library-characters",
        type=int,
        default=LIBRARY_CHARACTERS,
        help="how much of the Python standard library to read (default %(default)s)",
    )
    args = parser.parse_args(argv)
    started = time.monotonic()
    try:
        text = training_text(args.library_characters, args.text, args.canaries, args.prompts)
        written = train_into(args.out, text)
    except (OSError, ValueError) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    size = (args.out / MODEL_FILE).stat().st_size
    state = f"trained in {time.monotonic() - started:.1f} s" if written else "up to date"
    print(f"{args.out}: {model_key(text)}, {size / 1e6:.1f} MB, {state}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
