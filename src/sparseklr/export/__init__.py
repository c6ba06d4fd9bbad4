"""Export of fitted models to ONNX, C and JSON, for predictions without this package.

:mod:`.portable` represents an estimator or a pipeline by arrays of numbers, and writes this representation as
JSON. :mod:`.c_header` writes it as C, and :mod:`.onnx_model` as an ONNX graph.
"""

from .c_header import to_c
from .onnx_model import register_converters, to_onnx
from .portable import to_json

__all__ = ["register_converters", "to_c", "to_json", "to_onnx"]
