"""Dual coordinate descent: `dcd`, `dcd_parallel` and `dcd_logistic`."""
