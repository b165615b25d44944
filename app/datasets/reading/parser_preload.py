"""Imported once by the forkserver of children: every child then starts with compiled kernels."""

import pyarrow as pa

from app.datasets import formats
from app.datasets.reading import sandbox  # noqa: F401
from app.system.forkserver import settle

# The pool that pyarrow takes by itself holds 10 to 30 MB more than this one for the same file, and by chance as much
# again. Not every build of pyarrow has it.
if "jemalloc" in pa.supported_memory_backends():
    pa.set_memory_pool(pa.jemalloc_memory_pool())
formats.warm()
settle()
