"""Runs methods: the one outer loop, its judge, the choice of a method, several classes one by one."""
