"""Programs on the device `cuda` do not import `torch.distributed.tensor`, and those that do find its tensors whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="not run: torch is not installed")
if not torch.distributed.is_available():
    pytest.skip("not run: this torch has no torch.distributed", allow_module_level=True)

PROGRAM = """
import sys
import torch

x = torch.arange(8.0, device="cuda")
assert (x + 1).sum().item() == 36
print("torch.distributed.tensor" in sys.modules)

from torch import distributed
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh

store = distributed.HashStore()
distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
spread = distribute_tensor(torch.arange(8.0), mesh, [Shard(0)])
total = (spread * 2 + 1).sum()
print(type(total) is DTensor, total.full_tensor().item())

class Called(DTensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        print("called")
        return super().__torch_dispatch__(function, types, args, kwargs)

print(type(Called(spread._local_tensor, spread._spec, requires_grad=False) + 1) is DTensor)
print((x + 2).tolist()[:2])
distributed.destroy_process_group()
"""


def test_a_program_may_use_tensors_of_both_kinds(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "tilewright", "run", str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    first, *others = ran.stdout.splitlines()
    assert first == str(not torch.__version__.startswith("2.14."))
    assert others == ["True 64.0", "called", "True", "[2.0, 3.0]"]
