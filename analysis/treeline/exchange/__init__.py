"""Exchange with other tools: their results as rows of ours, marked foreign, and ours as rows of theirs."""
