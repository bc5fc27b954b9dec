"""Local arrays of Numba kernels as the source has them: the compiler cannot tell which accesses they get.

An array's address goes through an instruction that the optimiser does not read. So it keeps the array in local memory,
with every access, while all other code is as usual.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tilewright.ground.native.replaced_names import Row

_MODULE, _MAKER = "numba.cuda.cudaimpl", "_generic_array"
#: The place of an array's address among the fields of Numba's arrays.
_DATA = 4


def rows() -> tuple[Row, ...]:
    """The replacement of the function that makes arrays in a kernel."""
    module = importlib.import_module(_MODULE)
    ir, local = module.ir, module.nvvm.ADDRSPACE_LOCAL
    original = getattr(module, _MAKER)

    @functools.wraps(original)
    def made(context: Any, builder: Any, *arguments: Any, **named: Any) -> Any:
        array = original(context, builder, *arguments, **named)
        if local not in (*arguments, *named.values()):
            return array
        word, data = ir.IntType(64), builder.extract_value(array, _DATA)
        kind = ir.FunctionType(word, [word])
        address = builder.asm(kind, "mov.u64 $0, $1;", "=l,l", [builder.ptrtoint(data, word)], True)
        return builder.insert_value(array, builder.inttoptr(address, data.type), _DATA)

    return ((_MODULE, _MAKER, made),)
