"""Calls that are not inlined: the runtime's own functions."""

from __future__ import annotations

from tilewright.errors import PtxError
from tilewright.simt.ptx import tree
from tilewright.simt.translate.emitter import Emitter
from tilewright.simt.translate.graph import Op


def emit_call(emitter: Emitter, op: Op) -> None:
    """Emit a call that the inliner left."""
    item = op.instruction
    target = next((o for o in item.operands if isinstance(o, tree.CallArguments)), None)
    raise PtxError(f"{emitter.module.path}:{item.ptx_line}: '{item.name}' to {target} is not implemented")
