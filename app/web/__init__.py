"""Code that HTTP endpoints share: the context, pages, checks of requests, idempotency, long polls, fast routes."""
