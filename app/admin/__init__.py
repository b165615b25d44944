"""Work on a whole installation from the command line: backups, integrity checks, the demo."""
