"""Health checks, and the figures of the whole service for an operator."""
