"""Code without input or output that both clients share: requests, answers, errors, formats."""
