"""How the service runs: its parent process, the HTTP server, compiling ahead of use."""
