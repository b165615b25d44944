"""Whether the workers of this service take jobs by now: one byte that all of its processes share."""

import mmap


class WorkersReady:
    """Made before processes are forked. Workers have kernels to load, and on a new machine to compile, first."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 1)  # nobody's file: copies of this process see the same page

    @property
    def ready(self) -> bool:
        return self._page[0] == 1

    @ready.setter
    def ready(self, value: bool) -> None:
        self._page[0] = int(value)
