"""Health: is the process alive, can it do its work."""
