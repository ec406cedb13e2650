"""Why a rollout does not begin."""


class RolloutRefusedError(Exception):
    """Nothing was changed; the message names what stands in the way, and what to do."""
