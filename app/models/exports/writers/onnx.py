"""ONNX in double precision: input `X` or one input per column, outputs `label`, `score` and others.

Text columns need onnxruntime, because they use one of its own operators; see `onnx_graph/texts.py`.

scores         multiclass models: the scores of all classes
probabilities  calibrated models: of all classes; `probability` as in predict: of the second of two, else of the label
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from app.models.calibration import Calibration
from app.models.exports.export_format import ExportFormat
from app.models.exports.onnx_graph.columns import add_scores
from app.models.exports.onnx_graph.graph import Graph
from app.models.exports.onnx_graph.texts import CONTRIB, reference_tokenizer
from app.models.exports.probe import Probe
from app.models.exports.raw_columns import Table
from app.models.exports.subject import KEY, Subject, describe, not_in
from app.tabular.date_text import read_date
from app.tabular.types import Array

if TYPE_CHECKING:
    from onnx import ValueInfoProto

IR_VERSION, OPSET, ML_OPSET = 9, 20, 3
"""Versions of the file format and of the operators: those of ONNX 1.15, which onnxruntime reads from 1.17 on."""
MAX_BYTES = (1 << 31) - (1 << 20)
"""Maximum bytes of the weights in a file. Protocol buffers are limited to 2 GiB; 1 MiB is left for the rest of the
file."""


def write(subject: Subject, difference: float | None) -> bytes:
    from onnx import helper  # imported on use: it takes half a second

    header = subject.file.header
    if subject.file.coef.nbytes > MAX_BYTES:
        raise not_in("onnx", "the file would exceed 2 GiB", "use npz or safetensors")
    graph, table = Graph(), Table.of(subject, "onnx", ("date", "text"))
    outputs = _add_answers(graph, subject, add_scores(graph, table, subject.rows_of_weights[1]))
    versions = {"": OPSET, "ai.onnx.ml": ML_OPSET} | ({CONTRIB: 1} if table.texts else {})
    model = helper.make_model(
        helper.make_graph(graph.nodes, "hyperplane", list(graph.inputs.values()), outputs, graph.constants),
        ir_version=IR_VERSION,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in versions.items()],
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
        (found,) = ReferenceEvaluator(model, new_ops=[reference_tokenizer()]).run([wanted], feeds)
    return np.asarray(found)


def _fed(values: list[Any], given: "ValueInfoProto") -> Array:
    from onnx import TensorProto

    if given.type.tensor_type.elem_type == TensorProto.STRING:
        return np.array(["" if value is None else value for value in values], dtype=object)
    numbers = (read_date(value) if isinstance(value, str) else value for value in values)
    return np.array([np.nan if number is None else number for number in numbers], dtype=np.float64)


def _add_answers(graph: Graph, subject: Subject, scores: str) -> list[Any]:
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
        score = graph.add("ReduceMax", scores, graph.whole(1), keepdims=0)
        number = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        score = graph.add("Squeeze", scores, graph.whole(1))
        limits = np.zeros(1) if task == "binary" and model.thresholds is None else model.thresholds
        if limits is not None:  # number of thresholds below the score
            above = graph.add("Cast", graph.add("Greater", scores, graph.constant(limits)), to=TensorProto.INT64)
            number = graph.add("ReduceSum", above, graph.whole(1), keepdims=0)
    if classes:
        kind, labels = _label_constant(classes)
        tell("label", kind, graph.add("Gather", graph.constant(labels), number))
    elif task == "regression":
        tell("label", TensorProto.DOUBLE, score)
    tell("score", TensorProto.DOUBLE, score)
    if task == "multiclass":
        tell("scores", TensorProto.DOUBLE, scores, len(classes))
    if calibration := Calibration.of(model):
        shares = _add_probabilities(graph, calibration, scores)
        if task == "binary":
            share = graph.add("Gather", shares, graph.whole(1), axis=1)
        else:
            share = graph.add("GatherElements", shares, graph.add("Unsqueeze", number, graph.whole(1)), axis=1)
        tell("probability", TensorProto.DOUBLE, graph.add("Squeeze", share, graph.whole(1)))
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
    best = graph.add("ReduceMax", scores, graph.whole(1), keepdims=1)
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
