"""Prefetch instructions: load an element of an array, or a row, into the cache before a kernel needs it."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = ["AHEAD", "LINE", "ask_ahead", "prefetch", "prefetch_row"]

LINE = 64  # bytes of a cache line
AHEAD = 96  # entries at the start of a row that are prefetched; the processor prefetches the rest itself
_FAR, _NEAR = 8, 3  # prefetch distance, in rows: of a row's start, then of its entries


def _generate_prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Generate the instruction that loads the index-th element of a contiguous array into the cache."""

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
    """Prefetch the entries from `first` to `past` and, for sparse data, their columns."""
    past = min(past, first + AHEAD)
    for k in range(first, past, LINE // values.itemsize):
        prefetch(values, k)
    if columns.size > 0:
        for k in range(first, past, LINE // columns.itemsize):
            prefetch(columns, k)


@njit(cache=True, nogil=True)
def ask_ahead(values: NDArray[Any], columns: NDArray[Any], starts: NDArray[Any], rows: NDArray[Any], k: int) -> None:
    """Prefetch the sparse rows that follow rows[k], while row rows[k] is processed. The rows are not adjacent in
    memory."""
    if k + _FAR < rows.size:
        prefetch(starts, rows[k + _FAR])
    if k + _NEAR < rows.size:
        prefetch_row(values, columns, starts[rows[k + _NEAR]], starts[rows[k + _NEAR] + 1])
