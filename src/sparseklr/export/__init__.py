"""Export fitted models to ONNX, C and JSON, for use without this package.

:mod:`.portable` turns an estimator or a pipeline into plain numbers; the other modules write these numbers in
one format each.
"""

from .c_header import to_c
from .onnx_model import register_converters, to_onnx
from .portable import to_json

__all__ = ["register_converters", "to_c", "to_json", "to_onnx"]
