"""Judge the outputs of one point together: what is too short to be judged alone is long enough as a whole.

The signals are those of `garble` where pooling keeps their meaning, with limits of their own, set on pools of
8 and 16 windows of 150 to 500 characters from code, manuals, licences, web sources and texts in Chinese and
Russian (tests/bench/bench_gates.py --calibrate prints them):

- no_repeats: the chance that two places hold the same word is below 0.15 % and the same token below 0.4 %.
  Pools of language had at least 0.78 % of tokens, draws from a vocabulary 0.02 %.
- late_no_repeats: the same of the last quarters of the outputs alone, for text that goes wrong after a while.
- unreadable: more than 1 % (and at least 8) characters are no text. Replacement characters at the very end of
  an output are left out: a bound on tokens cuts characters.
- mixed_scripts: four or more writing systems hold at least 2 % of the letters each, and more than 5 % of
  neighbouring letters change the system. Prompts in many languages give the first, not the second.
- crossed_brackets: of at least 16 closing brackets, more than 40 % meet an open one of another kind.
- incompressible: zlib leaves more than 78 % of at least 1000 bytes.
- length: fewer than 0.5 or more than 20 characters a token, where the tokens are known. With the end of the
  text ignored, the number of tokens is the same for every output; what they spell is not. Outputs without any
  text count here.

Repetition stands beside them, as a count: an output loops when at least 85 % of the tokens in its second half
(and at least 12) are those of 1 to 16 places before. Sound models loop at times, tables and lists nearly do
(1.5 % of windows), so it is the share of outputs that tells, and the gate's limit on it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Iterable, Optional, Sequence

from . import garble

MIN_OUTPUTS = 4
MIN_WORDS = 64
MIN_LATE_WORDS = 64
WORD_REPEATS = 0.0015
TOKEN_REPEATS = 0.004
UNREADABLE_SHARE = 0.01
UNREADABLE_COUNT = 8
SCRIPT_SHARE = 0.02
SCRIPT_CHANGES = 0.05
SCRIPT_MIN_LETTERS = 200
CROSSED_MIN = 16
COMPRESS_MIN = 1000
COMPRESS_LIMIT = 0.78
CHARACTERS_PER_TOKEN = (0.5, 20.0)
LOOP_PERIODS = 16
LOOP_SHARE = 0.85
LOOP_MIN_TOKENS = 12

Signal = tuple[Optional[float], bool]


def summarise(
    texts: Sequence[str], reports: Iterable[garble.Report], tokens: Optional[int] = None
) -> dict[str, Any]:
    """What a point says of its outputs: {flagged, of, not_available, pool, looping}.

    `texts` are the outputs that ended well, `reports` the verdicts on each alone, `tokens` how many
    completion tokens they hold together. Where the pool is clean, outputs too short to be judged alone count
    as examined.
    """
    verdicts = Counter(report.verdict for report in reports)
    pool = inspect(texts, tokens)
    unsure = verdicts["not available"]
    return {
        "flagged": verdicts["flagged"],
        "of": verdicts["flagged"] + verdicts["clean"] + (unsure if pool.verdict == "clean" else 0),
        "not_available": unsure,
        "pool": {
            "verdict": pool.verdict,
            "reasons": list(pool.reasons),
            "outputs": len(texts),
            "scores": pool.scores,
        },
        "looping": count_loops(texts),
    }


def inspect(texts: Sequence[str], tokens: Optional[int] = None) -> garble.Report:
    """Judge outputs together. `not available`: too few of them, or too few words, and nothing else wrong."""
    kept = [text.rstrip("\ufffd") for text in texts]
    parts = [garble.tokenize(text) for text in kept]
    late = [part[-(len(part) // 4) :] for part in parts if len(part) >= 4]
    joined = "\n".join(kept)
    signals = {
        "no_repeats": _no_repeats(parts, MIN_WORDS),
        "late_no_repeats": _no_repeats(late, MIN_LATE_WORDS),
        "unreadable": _unreadable(joined),
        "mixed_scripts": _mixed_scripts(joined),
        "crossed_brackets": _crossed_brackets(kept),
        "incompressible": _incompressible(joined),
        "length": _length(sum(map(len, texts)), tokens),
    }
    scores = {name: round(score, 5) for name, (score, _) in signals.items() if score is not None}
    reasons = tuple(name for name, (_, bad) in signals.items() if bad)
    if len(texts) < MIN_OUTPUTS:
        return garble.Report("not available", (), scores)
    if reasons:
        return garble.Report("flagged", reasons, scores)
    return garble.Report("clean" if "no_repeats" in scores else "not available", (), scores)


def count_loops(texts: Iterable[str]) -> dict[str, int]:
    """How many outputs loop at their end, of those that are long enough to tell."""
    shares = [share for share in map(loop_share, texts) if share is not None]
    return {"count": sum(share >= LOOP_SHARE for share in shares), "of": len(shares)}


def loop_share(text: str) -> Optional[float]:
    """The largest share of the tokens in the second half of `text` that equal the one some places before.

    None below LOOP_MIN_TOKENS; the places tried are 1 to LOOP_PERIODS, at most half of what is looked at.
    """
    tokens = garble.tokenize(text)
    tail = tokens[len(tokens) // 2 :]
    if len(tail) < LOOP_MIN_TOKENS:
        return None
    periods = range(1, min(LOOP_PERIODS, len(tail) // 2) + 1)
    return max(sum(map(str.__eq__, tail, tail[period:])) / (len(tail) - period) for period in periods)


def _no_repeats(parts: Iterable[Sequence[str]], least: int) -> Signal:
    tokens = Counter(itertools.chain.from_iterable(parts))
    words = Counter({token: count for token, count in tokens.items() if garble.is_word(token)})
    if sum(words.values()) < least:
        return None, False
    of_words, of_tokens = garble.pair_repeats(words) or 0.0, garble.pair_repeats(tokens) or 0.0
    return of_tokens, of_words < WORD_REPEATS and of_tokens < TOKEN_REPEATS


def _unreadable(text: str) -> Signal:
    if not text:
        return None, False
    count = garble.count_unreadable(text)
    return count / len(text), count >= UNREADABLE_COUNT and count / len(text) > UNREADABLE_SHARE


def _mixed_scripts(text: str) -> Signal:
    known: dict[str, Optional[str]] = {}
    scripts: Counter[str] = Counter()
    changes, before = 0, None
    for character in text:
        if character not in known:
            known[character] = garble.script_of(character)
        script = known[character]
        if script is None:
            continue
        scripts[script] += 1
        changes += before is not None and script != before
        before = script
    letters = sum(scripts.values())
    if letters < SCRIPT_MIN_LETTERS:
        return None, False
    held = sum(1 for count in scripts.values() if count >= SCRIPT_SHARE * letters)
    return changes / letters, held >= garble.SCRIPT_COUNT and changes / letters > SCRIPT_CHANGES


def _crossed_brackets(texts: Iterable[str]) -> Signal:
    counts = [garble.count_brackets(text) for text in texts]
    closed, crossed = sum(one for one, _ in counts), sum(one for _, one in counts)
    if closed < CROSSED_MIN:
        return None, False
    return crossed / closed, crossed / closed > garble.CROSSED_SHARE


def _incompressible(text: str) -> Signal:
    ratio = garble.compressed_share(text, COMPRESS_MIN)
    return ratio, ratio is not None and ratio > COMPRESS_LIMIT


def _length(characters: int, tokens: Optional[int]) -> Signal:
    if not tokens:
        return None, False
    low, high = CHARACTERS_PER_TOKEN
    return characters / tokens, not low <= characters / tokens <= high
