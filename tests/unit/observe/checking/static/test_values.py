"""The origins of registers' values, in kernels of any length."""

from __future__ import annotations

from tilewright.observe.checking.static.values import of_kernel

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, 1;
"""


class Looked(dict):
    """A dictionary that counts its look-ups."""

    count = 0

    def get(self, key, default=None):
        self.count += 1
        return super().get(key, default)


def test_the_origins_of_a_register_are_found_in_linear_time():
    """A register that many instructions write is looked up once, not once for each reader."""
    body = "add.u32 %r1, %r1, %r2; xor.b32 %r2, %r2, %r1;\n" * 300
    values = of_kernel(f"{HEAD}{body}st.global.u32 [%rd1], %r2; ret; }}", "k")
    looked = values.__dict__["writers"] = Looked(values.writers)
    names = [op.instruction.opcode for op in values.origins(["%r2", "%r1", "%r2"])]
    assert (names.count("add"), names.count("xor"), names.count("mov")) == (300, 300, 2)
    assert looked.count == 2
