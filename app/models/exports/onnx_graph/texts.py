"""The weighted terms of a text column, with exactly the words that predict finds.

Operators of ONNX alone cannot split a text into words: `StringSplit` splits at one fixed text. onnxruntime's operator
`Tokenizer` (domain `com.microsoft`, in every build for CPUs) splits by a regular expression. Its classes of letters and
the lower case of `StringNormalizer` depend on its version and on the locales of the machine. So the file contains
Python's word characters as ranges of code points, and Python's table of lower-case letters.

Words are found in the text as it is and converted to lower case afterwards, once for each different word. One character
needs care: the lower case of U+0130 is `i` and a combining dot, which ends a word. Another depends on its neighbours: a
capital sigma becomes a final or a usual one. A vocabulary with a sigma is refused.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from app.models.exports.onnx_graph.graph import Graph
from app.models.exports.raw_columns import TextColumn
from app.models.exports.subject import not_in
from app.preprocess.preprocess_error import called

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

CONTRIB = "com.microsoft"
DOTTED_I = "\u0130"
SIGMAS = frozenset("\u03c3\u03c2")
PLACEHOLDER = "aa"
"""A word in an additional row, so that no array of words is empty. The row is removed again."""
WORD_CHARACTER = re.compile(r"\w")


def add_text(graph: Graph, column: str, text: TextColumn) -> list[str]:
    parts = []
    if text.terms.n_terms:
        parts.append(_add_terms(graph, column, text))
    if text.missing.any():
        gaps = _add_lookup(graph, column, [""], [1], 0)
        table = np.vstack([np.zeros_like(text.missing), text.missing])
        parts.append(graph.add("Gather", graph.constant(table), gaps, axis=0))
    return parts


def _add_terms(graph: Graph, column: str, text: TextColumn) -> str:
    """Add the weighted terms as `Terms` computes them. Memory is linear in the words, not in rows x terms: `Unique`
    counts pairs of a row and a term. The number after the last term stands for unknown ones, which weigh nothing."""
    from onnx import TensorProto

    settings, unknown = text.terms.settings, text.terms.n_terms
    found = _add_term_numbers(graph, column, text)  # [rows + 1, places of terms]
    n_rows = graph.add("Slice", graph.add("Shape", found), graph.whole(0), graph.whole(1))
    first, step = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    rows = graph.add("Unsqueeze", graph.add("Range", first, graph.add("Squeeze", n_rows), step), graph.whole(1))
    pairs = graph.add("Add", graph.add("Mul", rows, graph.whole(unknown + 1)), found)
    pair = graph.add("Unique", graph.add("Reshape", pairs, graph.whole(-1)), sorted=1)
    row = graph.add("Div", pair, graph.whole(unknown + 1))
    term = graph.add("Sub", pair, graph.add("Mul", row, graph.whole(unknown + 1)))
    values = graph.add("Cast", f"{pair}_counts", to=TensorProto.DOUBLE)
    if settings.sublinear:
        values = graph.add("Add", graph.add("Log", values), graph.constant(np.float64(1.0)))
    if settings.norm == "l2":
        idf = np.ones(unknown) if text.terms.idf is None else text.terms.idf
        values = graph.add("Mul", values, graph.add("Gather", graph.constant(np.append(idf, 0.0)), term))
        squares = _add_sums(graph, graph.add("Mul", values, values), row, n_rows)
        empty = graph.add("Equal", squares, graph.constant(np.float64(0.0)))
        norms = graph.add("Where", empty, graph.constant(np.float64(1.0)), graph.add("Sqrt", squares))
        values = graph.add("Div", values, graph.add("Gather", norms, row))
    weights = np.vstack([text.weights.T, np.zeros(len(text.weights))])
    weighed = graph.add(
        "Mul", graph.add("Unsqueeze", values, graph.whole(1)), graph.add("Gather", graph.constant(weights), term)
    )
    places = graph.add("Expand", graph.add("Unsqueeze", row, graph.whole(1)), graph.add("Shape", weighed))
    shape = graph.add("Concat", n_rows, graph.whole(len(text.weights)), axis=0)
    sums = _add_sums(graph, weighed, places, shape)
    return graph.add("Slice", sums, graph.whole(0), graph.whole(-1), graph.whole(0))  # without the placeholder


def _add_sums(graph: Graph, values: str, rows: str, shape: str) -> str:
    """Add the sums of the values of each row. `ScatterElements` adds in order, so a sum depends on its row only."""
    zeros = graph.add("Expand", graph.constant(np.float64(0.0)), shape)
    return graph.add("ScatterElements", zeros, rows, values, axis=0, reduction="add")


def _add_term_numbers(graph: Graph, column: str, text: TextColumn) -> str:
    """Add the numbers of the terms at each place of each row, and of a row with a placeholder."""
    settings, vocabulary = text.terms.settings, text.terms.vocabulary
    assert vocabulary is not None
    terms = vocabulary.to_list()
    rows = graph.add("Concat", column, graph.texts(PLACEHOLDER), axis=0)
    words = graph.add(
        "Tokenizer", rows, domain=CONTRIB, mark=0, mincharnum=1, pad_value="", tokenexp=_pattern(settings.lowercase)
    )
    if settings.lowercase:
        if any(not SIGMAS.isdisjoint(term) for term in terms):
            why = f"column {called(text.name)} has Greek terms, and the lower case of a sigma depends on its neighbours"
            raise not_in("onnx", why, "use json, npz, safetensors or mlflow, or train with lowercase: false")
        words = _add_lower_case(graph, words, max(len(word) for term in terms for word in term.split(" ")))
    shortest, longest = settings.ngrams
    found, joined = [], words
    for size in range(1, longest + 1):
        if size > 1:  # the next word after each term of one word less; after the last one nothing
            n_rows = graph.add("Slice", graph.add("Shape", words), graph.whole(0), graph.whole(1))
            nothing = graph.add("Expand", graph.texts(""), graph.add("Concat", n_rows, graph.whole(1), axis=0))
            rest = graph.add("Slice", words, graph.whole(1), graph.whole(np.iinfo(np.int64).max), graph.whole(1))
            words = graph.add("Concat", rest, nothing, axis=1)
            joined = graph.add("StringConcat", graph.add("StringConcat", joined, graph.texts(" ")), words)
        if size >= shortest:
            own = [number for number, term in enumerate(terms) if term.count(" ") == size - 1]
            if own:
                found.append(_add_lookup(graph, joined, [terms[number] for number in own], own, len(terms)))
    return graph.add("Concat", *found, axis=1)


def _add_lookup(graph: Graph, texts: str, keys: list[str], values: list[int], default: int) -> str:
    return graph.add(
        "LabelEncoder", texts, domain="ai.onnx.ml", keys_strings=keys, values_int64s=values, default_int64=default
    )


def _add_lower_case(graph: Graph, words: str, longest: int) -> str:
    """Convert words to lower case, character by character. Words longer than `longest` are cut after more characters
    than any term has, so they stay unknown."""
    room = 1 << longest.bit_length()  # a power of 2 above `longest`
    keys, values = zip(*_lower_case().items(), strict=True)
    different = graph.add("Unique", graph.add("Reshape", words, graph.whole(-1)), sorted=1)
    characters = graph.add("Tokenizer", different, domain=CONTRIB, mark=0, mincharnum=1, pad_value="", separators=[""])
    shape = graph.add("Concat", graph.add("Shape", different), graph.whole(room), axis=0)
    padding = graph.add("Expand", graph.constant(np.array([[""]], dtype=object)), shape)
    padded = graph.add("Concat", characters, padding, axis=1)
    kept = graph.add("Slice", padded, graph.whole(0), graph.whole(room), graph.whole(1))
    numbers = _add_lookup(graph, kept, list(keys), list(range(1, len(keys) + 1)), 0)
    lowered = graph.add("Gather", graph.texts("", *values), numbers)
    joined = graph.add("Where", graph.add("Greater", numbers, graph.whole(0)), lowered, kept)
    while room > 1:  # join neighbours until a word is one text
        room //= 2
        pairs = graph.add("Reshape", joined, graph.whole(-1, room, 2))
        left, right = (graph.add("Gather", pairs, graph.constant(np.int64(side)), axis=2) for side in (0, 1))
        joined = graph.add("StringConcat", left, right)
    flat = graph.add("Reshape", joined, graph.whole(-1))
    return graph.add("Reshape", graph.add("Gather", flat, f"{different}_inverse"), graph.add("Shape", words))


@cache
def _lower_case() -> dict[str, str]:
    """Return the characters whose lower case differs. Only that of U+0130 has two characters; the second is no part of
    a word."""
    every = (chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return {one: one.lower()[0] for one in every if one.lower() != one}


@cache
def _pattern(lowercase: bool) -> str:
    r"""Return `\b\w\w+\b` as ranges of code points, in the syntax of RE2.

    Before a conversion to lower case, U+0130 can only be the last character of a word.
    """
    if not lowercase:
        return f"[{_ranges('')}]{{2,}}"
    inner = _ranges(DOTTED_I)
    return rf"[{inner}]+[{inner}\x{{{ord(DOTTED_I):x}}}]"


def _ranges(without: str) -> str:
    codes = [
        code
        for code in range(0x110000)
        if not 0xD800 <= code < 0xE000 and chr(code) not in without and WORD_CHARACTER.match(chr(code))
    ]
    numbers = np.array(codes)
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) != 1)
    ends = np.append(starts[1:], len(numbers)) - 1
    return "".join(rf"\x{{{numbers[a]:x}}}-\x{{{numbers[b]:x}}}" for a, b in zip(starts, ends, strict=True))


@cache
def reference_tokenizer() -> type["OpRun"]:
    """Return `Tokenizer` for ONNX's reference evaluator, as far as the graphs of this module use it."""
    from onnx.reference.op_run import OpRun

    class Tokenizer(OpRun):
        op_domain = CONTRIB

        def _run(self, texts: Any, pad_value: str = "", tokenexp: str = "", **_attributes: Any) -> tuple[Any]:
            find = _python_pattern(tokenexp).findall if tokenexp else list
            found = [find(text) for text in texts.tolist()]
            table = np.full((len(found), max(map(len, found), default=0)), pad_value, dtype=object)
            for row, tokens in enumerate(found):
                table[row, : len(tokens)] = tokens
            return (table,)

    return Tokenizer


def _python_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: rf"\U{int(found[1], 16):08x}", pattern))
