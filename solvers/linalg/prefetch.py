"""Hints to the processor: load an element of an array, or a row, soon, because a kernel will jump there."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["AHEAD", "LINE", "ask_ahead", "prefetch", "prefetch_row"]

LINE = 64  # bytes that are loaded at once
AHEAD = 96  # entries of a row that are prefetched; the hardware prefetches the rest
_FAR, _NEAR = 8, 3  # how many rows ahead row numbers, then row contents, are prefetched


def _generate_prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to load the index-th element of a contiguous array soon; no effect on values."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        prefetch_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.globals.get("llvm.prefetch.p0")
        if call is None:
            call = ir.Function(builder.module, prefetch_type, "llvm.prefetch.p0")
        builder.call(call, [address, number(0), number(3), number(1)])  # to read, all levels, data
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_generate_prefetch)


@njit(cache=True, nogil=True)
def prefetch_row(values: NDArray[Any], columns: NDArray[Any], first: int, past: int) -> None:
    """The entries from `first` to `past`, and their columns if there are any."""
    past = min(past, first + AHEAD)
    for k in range(first, past, LINE // values.itemsize):
        prefetch(values, k)
    if columns.size > 0:
        for k in range(first, past, LINE // columns.itemsize):
            prefetch(columns, k)


@njit(cache=True, nogil=True)
def ask_ahead(values: NDArray[Any], columns: NDArray[Any], starts: NDArray[Any], rows: NDArray[Any], k: int) -> None:
    """Of chosen sparse rows, which lie here and there: ask for those ahead while the k-th one is worked on."""
    if k + _FAR < rows.size:
        prefetch(starts, rows[k + _FAR])
    if k + _NEAR < rows.size:
        prefetch_row(values, columns, starts[rows[k + _NEAR]], starts[rows[k + _NEAR] + 1])
