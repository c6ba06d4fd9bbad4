"""Fitted models for places where this package is not installed: ONNX, C and JSON.

:mod:`.portable` turns an estimator or a pipeline into plain numbers; each of the other modules writes these
numbers in one format.
"""

from .c_header import to_c
from .json_file import to_json
from .onnx_graph import register_converters, to_onnx

__all__ = ["register_converters", "to_c", "to_json", "to_onnx"]
