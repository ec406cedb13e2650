"""`python -m treeline.cli`."""

from treeline.cli import main

main()
