"""`python -m devote`."""

from devote.cli import main

main()
