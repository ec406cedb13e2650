"""Lookup plugin: what the load sends. A door to treeline.material."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from treeline import material

DOCUMENTATION = r"""
name: treeline_material
short_description: The canaries that ship with Treeline
description:
  - Returns what a load sends, read on the controller from the files of the treeline package.
options:
  _terms:
    description:
      - C(canaries) for questions whose right answers are known, as mappings of id, kind, prompt, expect (a
        regular expression on the answer) and max_tokens.
    type: list
    elements: str
    choices: [canaries]
    required: true
author:
  - Treeline
"""

EXAMPLES = r"""
- name: Show the canaries
  ansible.builtin.debug:
    msg: "{{ query('treeline_material', 'canaries') }}"
"""

RETURN = r"""
_raw:
  description: The entries of all terms, in their order.
  type: list
  elements: raw
"""

_READERS: dict[str, Callable[[], list[Any]]] = {"canaries": material.canaries}


class LookupModule(LookupBase):
    """The lookup by its name."""

    def run(self, terms: list[Any], variables: Any = None, **kwargs: Any) -> list[Any]:
        """The entries of every term. Raises AnsibleLookupError for a term that is none, or a damaged file."""
        self.set_options(var_options=variables, direct=kwargs)
        found: list[Any] = []
        for term in terms:
            read = _READERS.get(str(term))
            if read is None:
                raise AnsibleLookupError(f"treeline_material: {term!r}. Allowed: {', '.join(_READERS)}")
            try:
                found += read()
            except material.MaterialError as error:
                raise AnsibleLookupError(str(error)) from error
        return found
