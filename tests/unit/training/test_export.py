"""The exported model is the student."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memwell.embed.onnx_embedder import open_session
from tests.unit.training.students import make_batches, make_student, torch

calibrate, evaluate, export = (
    pytest.importorskip(f"training.{name}", reason="torch or zstandard is not installed")
    for name in ("calibrate", "evaluate", "export")
)


def test_the_export_is_the_student(tmp_path: Path) -> None:
    student = make_student()
    calibrate.calibrate(student, make_batches())
    student.quantise()
    student.centre.copy_(0.1 * torch.randn(24))
    evaluate.save_student(student, tmp_path)
    weights = export.pack_weights(evaluate.load_student(tmp_path / "student.pt"))
    (tmp_path / "model.onnx").write_bytes(export.build_model(weights))
    tokens = torch.tensor([[2, 17, 31, 44, 3]])
    mask = torch.ones_like(tokens, dtype=torch.bool)
    session = open_session(str(tmp_path / "model.onnx"))
    exported = session.run(None, {"tokens": tokens.numpy()})[0][0]
    with torch.no_grad():
        whole = student(tokens, mask)
        again = evaluate.load_exported(tmp_path / "model.onnx")(tokens, mask)
    for vector in (again, torch.tensor(exported / np.linalg.norm(exported))):
        assert float((whole * vector).sum()) > 0.995
