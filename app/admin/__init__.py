"""Commands for a whole installation: backup, restore, integrity check, repair, demo."""
