"""``python -m dotnetdiag``: the command line."""

from dotnetdiag.cli.main import main

main()
