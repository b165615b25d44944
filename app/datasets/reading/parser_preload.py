"""Imported once by the forkserver of parser processes, so that each of them starts with compiled kernels."""

import pyarrow as pa

from app.datasets import formats
from app.datasets.reading import sandbox  # noqa: F401
from app.system.forkserver import settle

# pyarrow's default memory pool needs 10 to 30 MB more than jemalloc for the same file, and sometimes twice that. Not
# every build of pyarrow has jemalloc.
if "jemalloc" in pa.supported_memory_backends():
    pa.set_memory_pool(pa.jemalloc_memory_pool())
formats.warm()
settle()
