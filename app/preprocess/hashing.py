"""One hash for levels and terms: CRC-32 of the UTF-8 bytes, its bits mixed. The compiled kernel computes the same."""

from zlib import crc32


def bucket(text: str, dims: int) -> int:
    return mixed(crc32(text.encode("utf-8", "surrogatepass"))) % dims


def mixed(h: int) -> int:
    """The finaliser of MurmurHash3: nearby checksums end up far apart."""
    h ^= h >> 16
    h = h * 0x85EBCA6B & 0xFFFFFFFF
    h ^= h >> 13
    h = h * 0xC2B2AE35 & 0xFFFFFFFF
    return h ^ h >> 16
