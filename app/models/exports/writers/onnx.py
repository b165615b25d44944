"""ONNX in double precision: input `X` or one input per column, outputs `label`, `score` and others.

scores         multiclass models: the scores of all classes
probabilities  calibrated models: of all classes; `probability` as in predict: of the second of two, else of the label
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from app.models.calibration import Calibration
from app.models.exports.export_format import ExportFormat
from app.models.exports.probe import Probe
from app.models.exports.raw_columns import Table, Words
from app.models.exports.subject import KEY, Subject, describe, not_in
from app.tabular.types import Array

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

IR_VERSION, OPSET, ML_OPSET = 8, 17, 3
MAX_BYTES = (1 << 31) - (1 << 20)
"""Maximum bytes of the weights in a file. Protocol buffers are limited to 2 GiB; 1 MiB is left for the rest of the
file."""


@dataclass
class Graph:
    """A graph under construction: inputs, nodes and constants. Values are referred to by name."""

    inputs: dict[str, "ValueInfoProto"] = field(default_factory=dict)
    nodes: list["NodeProto"] = field(default_factory=list)
    constants: list["TensorProto"] = field(default_factory=list)

    def input(self, name: str, kind: int, *width: int) -> str:
        from onnx import helper

        self.inputs[name] = helper.make_tensor_value_info(name, kind, [None, *width])
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        from onnx import helper

        output = output or f"hyperplane/value_{len(self.nodes)}"
        outputs = [output, f"{output}_places"] if operator == "TopK" else [output]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return output

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"hyperplane/constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def whole(self, number: int) -> str:
        return self.constant(np.array([number], dtype=np.int64))


def write(subject: Subject, difference: float | None) -> bytes:
    return build(subject, difference, wide=True)


def build(subject: Subject, difference: float | None, *, wide: bool) -> bytes:
    """Build the model. `wide`: include outputs with several values per row."""
    from onnx import helper  # imported on use: it takes half a second

    header = subject.file.header
    if subject.file.coef.nbytes > MAX_BYTES:
        raise not_in("onnx", "the file would exceed 2 GiB", "use npz or safetensors")
    graph = Graph()
    scores = _add_scores(graph, Table.of(subject, "onnx"), subject.rows_of_weights[1])
    outputs = _add_answers(graph, subject, scores, wide)
    model = helper.make_model(
        helper.make_graph(graph.nodes, "hyperplane", list(graph.inputs.values()), outputs, graph.constants),
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
        producer_name="hyperplane",
        doc_string=f"{subject.name}:{subject.version}, task {header.task}",
    )
    said = {name: value for name, value in describe(subject, difference).items() if name != "preprocess"}
    helper.set_model_props(model, {KEY: msgspec.json.encode(said).decode()})
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def scores(subject: Subject, content: bytes, probe: Probe) -> Array:
    """Compute scores with the reference evaluator of ONNX."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = onnx.load_from_string(content)
    told = [output.name for output in model.graph.output]
    wanted = next(name for name in told[::-1] if name.endswith(("score", "scores")))
    feeds = {"X": probe.numbers}
    if probe.numbers is None:
        feeds = {given.name: _fed(probe.columns[given.name], given) for given in model.graph.input}
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # the evaluator's sigmoid computes both branches, and one can overflow
        (found,) = ReferenceEvaluator(model).run([wanted], feeds)
    return np.asarray(found)


def _fed(values: list[Any], given: "ValueInfoProto") -> Array:
    from onnx import TensorProto

    if given.type.tensor_type.elem_type == TensorProto.STRING:
        return np.array(["" if value is None else value for value in values], dtype=object)
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _add_scores(graph: Graph, table: Table, intercept: Array) -> str:
    """Add the scores: [rows, scores per row]."""
    from onnx import TensorProto

    if not table.words:
        graph.input("X", TensorProto.DOUBLE, table.n_columns)
        return _add_numbers(graph, "X", *_of_all_columns(table), intercept)
    parts = []
    if len(table.places):
        columns = [graph.input(name, TensorProto.DOUBLE) for name in table.number_names]
        matrix = graph.add("Concat", *(graph.add("Unsqueeze", name, graph.whole(1)) for name in columns), axis=1)
        parts.append(_add_numbers(graph, matrix, table.weights, table.fill, table.missing, intercept))
    else:
        parts.append(graph.constant(intercept[None]))
    for words in table.words:
        kind = TensorProto.STRING if words.is_text else TensorProto.DOUBLE
        column = graph.input(words.name, kind)
        parts.append((_add_texts if words.is_text else _add_levels)(graph, column, words))
    return graph.add("Sum", *parts)


def _of_all_columns(table: Table) -> tuple[Array, Array, Array]:
    """Return weights, fill values and weights of missing numbers for all columns; zeros for ignored ones."""
    if len(table.places) == table.n_columns:
        return table.weights, table.fill, table.missing
    weights = np.zeros((len(table.weights), table.n_columns))
    fill, missing = np.zeros(table.n_columns), np.zeros_like(weights)
    weights[:, table.places], fill[table.places], missing[:, table.places] = table.weights, table.fill, table.missing
    return weights, fill, missing


def _add_numbers(graph: Graph, matrix: str, weights: Array, fill: Array, missing: Array, intercept: Array) -> str:
    from onnx import TensorProto

    gaps, filled = "", matrix
    if not np.isnan(fill).all():
        gaps = graph.add("IsNaN", matrix)
        filled = graph.add("Where", gaps, graph.constant(fill[None]), matrix)
    factors = graph.constant(np.ascontiguousarray(weights.T))
    scores = graph.add("Gemm", filled, factors, graph.constant(intercept))
    if missing.any():
        counted = graph.add("Cast", gaps, to=TensorProto.DOUBLE)
        added = graph.add("MatMul", counted, graph.constant(np.ascontiguousarray(missing.T)))
        scores = graph.add("Add", scores, added)
    return scores


def _add_texts(graph: Graph, column: str, words: Words) -> str:
    """Map texts to category numbers and these to weights. Unknown and missing categories have the last numbers."""
    count = len(words.levels)
    numbers = {"": count + 1} | {level: number for number, level in enumerate(words.levels)}
    number = graph.add(
        "LabelEncoder",
        column,
        domain="ai.onnx.ml",
        keys_strings=list(numbers),
        values_int64s=list(numbers.values()),
        default_int64=count,
    )
    weights = np.vstack([words.weights.T, words.unknown, words.missing])
    return graph.add("Gather", graph.constant(weights), number, axis=0)


def _add_levels(graph: Graph, column: str, words: Words) -> str:
    """Compare a numeric column with each of its categories."""
    from onnx import TensorProto

    values = graph.add("Unsqueeze", column, graph.whole(1))
    equal = graph.add("Equal", values, graph.constant(np.array([words.numbers])))
    hits = graph.add("Cast", equal, to=TensorProto.DOUBLE)
    weighed = graph.add("MatMul", hits, graph.constant(np.ascontiguousarray(words.weights.T)))
    known = graph.add("Cast", graph.add("ReduceSum", hits, graph.whole(1), keepdims=1), to=TensorProto.BOOL)
    found = graph.add("Where", known, weighed, graph.constant(words.unknown[None]))
    return graph.add("Where", graph.add("IsNaN", values), graph.constant(words.missing[None]), found)


def _add_answers(graph: Graph, subject: Subject, scores: str, wide: bool) -> list[Any]:
    from onnx import TensorProto, helper

    model = subject.file
    classes, task = model.header.classes, model.header.task
    outputs = []

    def tell(name: str, kind: int, value: str, *width: int) -> None:
        while name in graph.inputs:
            name = f"predicted_{name}"
        graph.add("Identity", value, output=name)
        outputs.append(helper.make_tensor_value_info(name, kind, [None, *width]))

    if task == "multiclass":
        score = graph.add("ReduceMax", scores, axes=[1], keepdims=0)
        number = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        score = graph.add("Squeeze", scores, graph.whole(1))
        limits = np.zeros(1) if task == "binary" else model.thresholds
        if limits is not None:  # number of thresholds below the score
            above = graph.add("Cast", graph.add("Greater", scores, graph.constant(limits)), to=TensorProto.INT64)
            number = graph.add("ReduceSum", above, graph.whole(1), keepdims=0)
    if classes:
        kind, labels = _label_constant(classes)
        tell("label", kind, graph.add("Gather", graph.constant(labels), number))
    elif task == "regression":
        tell("label", TensorProto.DOUBLE, score)
    tell("score", TensorProto.DOUBLE, score)
    if task == "multiclass" and wide:
        tell("scores", TensorProto.DOUBLE, scores, len(classes))
    if calibration := Calibration.of(model):
        shares = _add_probabilities(graph, calibration, scores)
        if task == "binary":
            share = graph.add("Gather", shares, graph.whole(1), axis=1)
        else:
            share = graph.add("GatherElements", shares, graph.add("Unsqueeze", number, graph.whole(1)), axis=1)
        tell("probability", TensorProto.DOUBLE, graph.add("Squeeze", share, graph.whole(1)))
        if wide:
            tell("probabilities", TensorProto.DOUBLE, shares, len(classes))
    return outputs


def _label_constant(classes: list[Any]) -> tuple[int, Array]:
    """Return the labels as integers, floats, or texts if any label is a text."""
    from onnx import TensorProto

    if any(isinstance(label, str) for label in classes):
        return TensorProto.STRING, np.array([str(label) for label in classes], dtype=object)
    if all(isinstance(label, int) for label in classes):
        return TensorProto.INT64, np.array(classes, dtype=np.int64)
    return TensorProto.DOUBLE, np.array(classes, dtype=np.float64)


def _add_probabilities(graph: Graph, calibration: Calibration, scores: str) -> str:
    """Add the probabilities [rows, classes] as in app/models/calibration.py."""
    if calibration.method == "softmax":
        return graph.add("Softmax", scores, axis=1)
    arguments = scores if calibration.argument == "score" else _add_margins(graph, scores)
    if calibration.method == "platt":
        slope, shift = calibration.arrays["slope"], calibration.arrays["shift"]
        line = graph.add("Add", graph.add("Mul", arguments, graph.constant(slope)), graph.constant(shift))
        values, curves = graph.add("Sigmoid", line), len(slope)
    else:
        starts = calibration.arrays["starts"].tolist()
        points = [slice(first, last) for first, last in pairwise(starts)]
        columns = [_add_isotonic(graph, calibration, arguments, k, part) for k, part in enumerate(points)]
        values, curves = graph.add("Concat", *columns, axis=1), len(points)
    if curves == 1:
        return graph.add("Concat", graph.add("Sub", graph.constant(np.ones((1, 1))), values), values, axis=1)
    return graph.add("Div", values, graph.add("ReduceSum", values, graph.whole(1), keepdims=1))


def _add_margins(graph: Graph, scores: str) -> str:
    """Add the margin of each class: its score minus the best score of the others."""
    best = graph.add("ReduceMax", scores, axes=[1], keepdims=1)
    two = graph.add("TopK", scores, graph.whole(2), axis=1)
    lead = graph.add("Sub", best, graph.add("Gather", two, graph.whole(1), axis=1))
    return graph.add("Where", graph.add("Equal", scores, best), lead, graph.add("Sub", scores, best))


def _add_isotonic(graph: Graph, calibration: Calibration, arguments: str, k: int, points: slice) -> str:
    """Add a piecewise linear curve: its first value, plus the completed share of each rise."""
    x, y = calibration.arrays["scores"][points], calibration.arrays["values"][points]
    f = graph.add("Gather", arguments, graph.whole(k), axis=1)
    if len(x) == 1:
        return graph.add("Add", graph.add("Mul", f, graph.constant(np.zeros(1))), graph.constant(y))
    way = graph.add("Div", graph.add("Sub", f, graph.constant(x[:-1])), graph.constant(np.diff(x)))
    share = graph.add("Clip", way, graph.constant(np.float64(0.0)), graph.constant(np.float64(1.0)))
    rise = graph.add("MatMul", share, graph.constant(np.diff(y)[:, None]))
    return graph.add("Add", rise, graph.constant(y[:1]))


ONNX = ExportFormat(
    name="onnx",
    media_type="application/x-onnx",
    suffix="onnx",
    write=write,
    scores=scores,
)
