"""API keys, sessions of browsers, and the guard that checks them."""
