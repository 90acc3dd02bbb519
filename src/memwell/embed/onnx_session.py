"""Open a model with onnxruntime."""

from __future__ import annotations

from typing import Any


def open_session(model: str | bytes) -> Any:
    """Return a session that runs the graph as it is, on the thread that calls it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
