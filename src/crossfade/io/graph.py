"""A thin hand on skl2onnx's containers: nodes and constants with names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from crossfade._typing import Floats

#: Versions of operators that are not ONNX's own; newer ones differ in nothing that is used here.
_VERSIONS = {"ai.onnx.ml": 2, "com.microsoft": 1}


class Graph:
    """Adds to the graph of one operator that skl2onnx converts; values go by their names.

    `scope`, `container`: As skl2onnx gives them to a converter.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        from onnx import TensorProto

        self._scope = scope
        self._container = container
        self._types = TensorProto
        #: Counts of words, by the column of text that they are from.
        self.words: dict[int, str] = {}

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add an operator with one output, and return the output's name."""
        output = self._scope.get_unique_variable_name(kind.lower())
        # skl2onnx takes the highest version of an operator as that of its whole domain.
        version = _VERSIONS.get(domain, self._container.target_opset)
        self._container.add_node(
            kind,
            list(inputs),
            output,
            op_domain=domain,
            op_version=version,
            name=self._scope.get_unique_operator_name(kind),
            **attributes,
        )
        return output

    def name(self, value: str, name: str) -> None:
        """Give a value the name that the outside expects."""
        self._container.add_node(
            "Identity", [value], name, name=self._scope.get_unique_operator_name("Identity")
        )

    # -- constants -------------------------------------------------------------------------------

    def constant(self, values: ArrayLike) -> str:
        """Add doubles."""
        array = np.asarray(values, dtype=np.float64)
        return self._initializer(self._types.DOUBLE, array.shape, array.ravel())

    def integers(self, values: Iterable[int]) -> str:
        """Add a vector of whole numbers."""
        array = np.array([int(value) for value in values], dtype=np.int64)
        return self._initializer(self._types.INT64, array.shape, array)

    def truths(self, values: ArrayLike) -> str:
        """Add truth values."""
        array = np.asarray(values, dtype=np.bool_)
        return self._initializer(self._types.BOOL, array.shape, array.ravel())

    def text(self, values: Sequence[str]) -> str:
        """Add a vector of words."""
        encoded = [value.encode() for value in values]
        return self._initializer(self._types.STRING, (len(encoded),), encoded)

    def _initializer(self, kind: Any, shape: Sequence[int], content: Any) -> str:
        name = self._scope.get_unique_variable_name("constant")
        self._container.add_initializer(name, kind, list(shape), content)
        return name

    # -- what is used again and again --------------------------------------------------------------

    def add(self, left: str, right: str) -> str:
        """Return the sum."""
        return self.node("Add", left, right)

    def times(self, rows: str, coefficients: Floats) -> str:
        """Return rows times coefficients, (n_rows, n_classes), of coefficients by class."""
        return self.node("MatMul", rows, self.constant(coefficients.T))

    def asinh(self, value: str) -> str:
        """Return the inverse hyperbolic sine, which runtimes have of single precision only."""
        one, far = self.constant(np.array(1.0)), self.constant(np.array(1e150))
        size = self.node("Abs", value)
        near = self.node("Min", size, far)  # the square of more would overflow
        root = self.node("Sqrt", self.add(self.node("Mul", near, near), one))
        beyond = self.node("Max", self.node("Div", size, far), one)
        found = self.add(self.node("Log", self.add(near, root)), self.node("Log", beyond))
        found = self.node("Mul", self.node("Sign", value), found)
        return self.node("Where", self.node("IsNaN", value), value, found)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """Return the same values in another shape."""
        return self.node("Reshape", value, self.integers(shape))

    def double(self, value: str) -> str:
        """Return the values as doubles."""
        return self.node("Cast", value, to=self._types.DOUBLE)

    def int64(self, value: str) -> str:
        """Return the values as whole numbers."""
        return self.node("Cast", value, to=self._types.INT64)

    def positions(self, value: str, words: Sequence[str]) -> str:
        """Return the position of each word among `words`, -1 for another word."""
        return self.node(
            "LabelEncoder",
            value,
            domain="ai.onnx.ml",
            keys_strings=list(words),
            values_int64s=list(range(len(words))),
            default_int64=-1,
        )
