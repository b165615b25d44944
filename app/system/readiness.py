"""Whether jobs run at once, or wait for kernels to be compiled: one byte that all processes of a service share."""

import mmap


class WorkersReady:
    """Made before processes are forked. The supervisor of the workers writes it, `/readyz` reads it."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 1)  # nobody's file: copies of this process see the same page

    @property
    def ready(self) -> bool:
        return self._page[0] == 1

    @ready.setter
    def ready(self, value: bool) -> None:
        self._page[0] = int(value)
