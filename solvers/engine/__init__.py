"""Runs methods: the outer loop, the certificates of a run, the choice of a method, and one-vs-rest."""
