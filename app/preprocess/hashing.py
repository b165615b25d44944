"""The hash of categories and terms: CRC-32 of the UTF-8 bytes, with mixed bits. text_kernels.py computes the same
hash."""

from zlib import crc32


def bucket(text: str, dims: int) -> int:
    return mixed(crc32(text.encode("utf-8", "surrogatepass"))) % dims


def mixed(h: int) -> int:
    """Mix the bits with the finalizer of MurmurHash3, so that similar checksums get very different hashes."""
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16
