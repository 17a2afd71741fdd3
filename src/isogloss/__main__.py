"""`python -m isogloss` runs the command line."""

from isogloss.cli import main

main()
