"""Matrix products by tiles, for Gram matrices and factorisations.

Matrices are stored in panels of `WIDE` columns, as [panel, step, column]. A tile is the sum over the steps of the
products of `HIGH` columns of one panel with all columns of another. The vector instructions are generated explicitly.
If the compiler vectorises the loop, it vectorises over the steps and has to add up a vector for each number of a tile.
A Gram matrix of 501 columns then takes 1.6 times as long, and twice as long if there are few rows.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]  # it ships no types
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["HIGH", "WIDE", "multiply_tile", "panels_of"]

LANES = 4
"""Doubles per vector register (256 bits)."""
HIGH, WIDE = 4, 12
"""Rows and columns of a tile. The twelve vectors of a tile, three vectors of one panel's step and one number of the
other's fill the 16 vector registers. Larger: registers would spill to memory."""


@njit(cache=True, nogil=True)
def panels_of(columns: int) -> int:
    """Return the number of panels for this many columns."""
    return (columns + WIDE - 1) // WIDE


def _generate_tile(typing_context: Any, left: Any, at: Any, right: Any, at_right: Any, steps: Any, out: Any) -> Any:
    """Generate out[m, c] = sum over s < steps of left[at + WIDE s + m] right[at_right + WIDE s + c].

    m < HIGH and c < WIDE; out is stored row by row. All arrays are contiguous float64; bounds are not checked.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        index, vector = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
        nothing, zero = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * LANES)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        places = [(m, v) for m in range(HIGH) for v in range(WIDE // LANES)]

        def data(place: int) -> Any:
            return context.make_array(signature.args[place])(context, builder, arguments[place]).data

        def vector_at(pointer: Any, offset: int) -> Any:
            return builder.bitcast(builder.gep(pointer, [index(offset)]), vector.as_pointer())

        left_begin, right_begin = builder.gep(data(0), [arguments[1]]), builder.gep(data(2), [arguments[3]])
        steps, out_begin, entry = arguments[4], data(5), builder.block
        loop, after = builder.append_basic_block("tile"), builder.append_basic_block("tile.after")
        builder.cbranch(builder.icmp_signed(">", steps, index(0)), loop, after)

        builder.position_at_end(loop)
        step = builder.phi(index)
        sums = {place: builder.phi(vector) for place in places}
        offset = builder.mul(step, index(WIDE))
        left_step, right_step = builder.gep(left_begin, [offset]), builder.gep(right_begin, [offset])
        row = [builder.load(vector_at(right_step, LANES * v), align=8) for v in range(WIDE // LANES)]
        grown = {}
        for m in range(HIGH):
            number = builder.load(builder.gep(left_step, [index(m)]))
            spread = builder.shuffle_vector(
                builder.insert_element(nothing, number, ir.IntType(32)(0)), nothing, everywhere
            )
            for v in range(WIDE // LANES):
                product = builder.fmul(spread, row[v], flags=("contract",))
                grown[m, v] = builder.fadd(sums[m, v], product, flags=("contract",))
        following = builder.add(step, index(1))
        builder.cbranch(builder.icmp_signed("<", following, steps), loop, after)
        step.add_incoming(index(0), entry)
        step.add_incoming(following, loop)
        for place in places:
            sums[place].add_incoming(zero, entry)
            sums[place].add_incoming(grown[place], loop)

        builder.position_at_end(after)
        totals = {place: builder.phi(vector) for place in places}
        for place in places:
            totals[place].add_incoming(zero, entry)
            totals[place].add_incoming(grown[place], loop)
        for m, v in places:
            builder.store(totals[m, v], vector_at(out_begin, WIDE * m + LANES * v), align=8)
        return context.get_dummy_value()

    return types.void(left, types.int64, right, types.int64, types.int64, out), generate


multiply_tile: Any = intrinsic(_generate_tile)
