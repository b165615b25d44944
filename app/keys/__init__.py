"""API keys, and the guard that asks for them."""
