"""TVM gets no PyTorch, though it is installed; whoever else imports it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_tvm_does_not_import_torch_and_others_do(tmp_path: Path) -> None:
    """A module of that name stands in for it."""
    (tmp_path / "torch.py").write_text("found = 'a stand-in'\n", encoding="utf-8")
    script = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "import edgetune, tvm, tvm.relax.frontend.onnx\n"
        "print('torch' in sys.modules)\n"
        "import torch\n"
        "print(torch.found)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["False", "a stand-in"]
