"""A sweep as it runs: what is done, what runs now, the map as it fills, and what is left."""
