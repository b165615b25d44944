"""The dashboard: static files that speak the public API."""
