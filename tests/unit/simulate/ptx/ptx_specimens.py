"""PTX texts that use much of the grammar, for the tests of printing and of damaged texts."""

from __future__ import annotations

GRAMMAR = """//
// every directive once
//
.version 8.4
.target sm_90, debug
.address_size 64
.file 1 "kernels/a.cu", 1700000000, 99
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 v) ;
.func stop(.param .b32 code) .noreturn { trap; }
.global .align 4 .u32 counter = 0b101;
.global .align 8 .u64 pointers[3] = {generic(counter)+4, counter, 1 << 3};
.global .align 1 .u8 bytes[4] = {0xFF(counter), 0xFF00(generic(counter)+1), 17, -1};
.const .f32 table[2][2] = {{1.5, 0f3F800000}, {-2.0}};
.const .f64 tenth = 0.1;
.extern .shared .align 16 .b8 dynamic[];
.shared .v2 .f32 tile[8];

.func (.param .align 8 .b8 r[16]) pass(.param .align 8 .b8 s[16], .param .b32 n)
{
    .reg .b64 %rd<4>;
    ld.param.v2.b64 {%rd1, %rd2}, [s];
    st.param.v2.b64 [r], {%rd1, %rd2};
    ret;
}
.func (.reg .u32 d) add1(.reg .u32 a) { add.u32 d, a, 1; ret; }
.func (.reg .u32 d) add2(.reg .u32 a);
.alias add2, add1;

.visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 8 .b8 s[16], .param .u32 n)
.maxntid 256, 1, 1
.minnctapersm 2
{
    .local .align 8 .b8 __local_depot0[24];
    .reg .pred %p<5>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<10>;
    .reg .f32 %f<5>;
    .reg .v4 .f32 quad;
    .pragma "nounroll";
    .loc 1 6 2
    ld.param.u64 %rd1, [p];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r1, %tid.x;
    ld.global.L1::no_allocate.v4.f32 quad, [%rd2+-16];
    add.f32 %f1, quad.x, quad.w;
    setp.lt.and.s32 %p1|%p2, %r1, 3, !%p3;
    shfl.sync.idx.b32 %r2|%p4, %r1, 0, 31, -1;
    @%p1 bra $L1;
    .loc 1 7 1, function_name $L__info_string0, inlined_at 1 6 2
    @!%p2 st.shared.f32 [tile+8], 0f3F800000;
    { // callseq 0, 0
        .param .align 8 .b8 a[16];
        .param .b32 b;
        .param .align 8 .b8 c[16];
        st.param.b64 [a+8], %rd1;
        call.uni (c), pass, (a, b);
        ld.param.b64 %rd3, [c];
    }
    { .param .b64 a; call (%r3), add1, (%r2); call (%r3), add2, (%r1); }
$L1:
    { .reg .b32 t; L: mov.u32 t, bytes[2]; @%p1 bra L; }
    { .reg .b32 t; L: mov.u32 t, 0x1F & WARP_SZ; @%p1 bra L; }
    proto: .callprototype (.param .b32 _) _ (.param .b64 _);
    { .param .b64 a; .param .b32 b; call (b), %rd3, (a), proto; }
    targets: .branchtargets $L1, $L2;
    brx.idx %r1, targets;
$L2:
    ret;
}
.section .debug_str
{
$L__info_string0:
.b8 95, 90
.b64 k+4
}
"""
