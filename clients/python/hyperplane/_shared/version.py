"""The version of the distribution: the same as that of the service that it is released with."""

__all__ = ["VERSION"]

VERSION = "0.1.0"
