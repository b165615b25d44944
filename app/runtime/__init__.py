"""Runs the service: the parent process, the HTTP server, and the compilation of kernels before use."""
