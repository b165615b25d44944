"""A graph under construction, with names for its values."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, ValueInfoProto

OUTPUTS = {"TopK": ("", "_places"), "Unique": ("", "_first", "_inverse", "_counts")}
"""Suffixes of the names of an operator's outputs. Other operators have one output."""


@dataclass
class Graph:
    """Inputs, nodes and constants. Values are referred to by name."""

    inputs: dict[str, "ValueInfoProto"] = field(default_factory=dict)
    nodes: list["NodeProto"] = field(default_factory=list)
    constants: list["TensorProto"] = field(default_factory=list)

    def input(self, name: str, kind: int, *width: int) -> str:
        from onnx import helper

        self.inputs[name] = helper.make_tensor_value_info(name, kind, [None, *width])
        return name

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its first output; the others are named as in OUTPUTS."""
        from onnx import helper

        output = output or f"hyperplane/value_{len(self.nodes)}"
        outputs = [f"{output}{suffix}" for suffix in OUTPUTS.get(operator, ("",))]
        self.nodes.append(helper.make_node(operator, list(inputs), outputs, **attributes))
        return output

    def constant(self, value: Any) -> str:
        from onnx import numpy_helper

        name = f"hyperplane/constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def texts(self, *texts: str) -> str:
        return self.constant(np.array(texts, dtype=object))

    def whole(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, dtype=np.int64))
