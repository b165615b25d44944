"""A flag that processes share: whether jobs start at once, or wait for kernels to be compiled."""

import mmap


class WorkersReady:
    """One byte that all processes of a service share. Create it before forking. The supervisor writes it, `/readyz`
    reads it."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 1)  # an anonymous mapping, which forked processes share

    @property
    def ready(self) -> bool:
        return self._page[0] == 1

    @ready.setter
    def ready(self, value: bool) -> None:
        self._page[0] = int(value)
