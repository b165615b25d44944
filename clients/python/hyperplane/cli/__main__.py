"""Run the command line as a module: `python -m hyperplane.cli`."""

from hyperplane.cli import main

main()
