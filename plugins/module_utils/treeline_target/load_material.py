"""What a load sends, packed into one argument: texts of prompts and canaries are too long for argument lists.

Modules log their arguments to the journal of the host, line by line. One packed text that is marked `no_log`
is left out there, and is a tenth of the size on its way.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any, Mapping, Sequence

MAX_UNPACKED = 64 * 1024 * 1024


class MaterialError(ValueError):
    """The packed text is not whole, too large, or holds something else; the message says which."""


def pack(prompts: Sequence[str], canaries: Sequence[Mapping[str, Any]], questions: bool = False) -> str:
    """One text of ASCII letters. Raises MaterialError above 64 MiB of material."""
    data = json.dumps(
        {"prompts": list(prompts), "questions": questions, "canaries": list(canaries)},
        ensure_ascii=False,
    ).encode("utf-8", "surrogatepass")
    if len(data) > MAX_UNPACKED:
        raise MaterialError(
            "the prompts take %d MiB; at most %d can be sent to a host. Name fewer or shorter ones"
            % (len(data) >> 20, MAX_UNPACKED >> 20)
        )
    return base64.b64encode(zlib.compress(data, 9)).decode("ascii")


def unpack(text: str) -> dict[str, Any]:
    """{prompts, questions, canaries} of a packed text. Raises MaterialError."""
    decoder = zlib.decompressobj()
    try:
        data = decoder.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED)
        if not decoder.eof:
            raise MaterialError("material: it breaks off, or is larger than %d MiB" % (MAX_UNPACKED >> 20))
        found = json.loads(data.decode("utf-8", "surrogatepass"))
    except (binascii.Error, zlib.error, ValueError) as error:
        if isinstance(error, MaterialError):
            raise
        raise MaterialError("material: it cannot be unpacked: %s" % error) from None
    if (
        not isinstance(found, dict)
        or not isinstance(found.get("prompts"), list)
        or not all(isinstance(text, str) for text in found["prompts"])
        or not isinstance(found.get("canaries"), list)
    ):
        raise MaterialError("material: it does not hold prompts and canaries")
    return found
