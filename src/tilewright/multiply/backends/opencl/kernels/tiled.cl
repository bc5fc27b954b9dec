// A work-group computes a block of C with its own extents, and copies tiles of A and B through local memory.
// Source: S4, the tiled kernel of Numba's ROC target; here for every shape. Edges are filled with zeros that are not
// summed: adding a zero can change a sum's sign, and an algebra's zero need not absorb.
kernel __attribute__((reqd_work_group_size(BN, BM, 1))) void tiled(PARAMETERS) {
    local T a_tile[BM][BK];
    local T b_tile[BK][BN];
    const int x = get_local_id(0), y = get_local_id(1);
    const int j = get_global_id(0), i = get_global_id(1);
    OPERANDS(get_global_id(2));
    T c = ZERO;
    for (int p0 = 0; p0 < k; p0 += BK) {
        for (int p = x; p < BK; p += BN) a_tile[y][p] = i < m && p0 + p < k ? A(i, p0 + p) : ZERO;
        for (int p = y; p < BK; p += BM) b_tile[p][x] = j < n && p0 + p < k ? B(p0 + p, j) : ZERO;
        barrier(CLK_LOCAL_MEM_FENCE);
        const int steps = min(BK, k - p0);
        for (int p = 0; p < steps; p++) c = accumulate(c, a_tile[y][p], b_tile[p][x]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < m && j < n) STORE(i, j, c);
}
