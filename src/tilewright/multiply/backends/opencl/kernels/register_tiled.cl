// A work-group computes a block of BM x BN, a work-item TM x TN of it in registers, as vectors of WIDTH.
// A work-item's vectors are BN / TN * WIDTH columns apart, so that neighbours read adjacent local memory.
#define ITEMS_X (BN / TN)
#define ITEMS_Y (BM / TM)
#define ITEMS (ITEMS_X * ITEMS_Y)
#define VECTORS (TN / WIDTH)
#define COLUMN(v) (((v) * ITEMS_X + x) * WIDTH)

kernel __attribute__((reqd_work_group_size(ITEMS_X, ITEMS_Y, 1))) void register_tiled(PARAMETERS) {
    local T a_tile[BK][BM];
    local T b_tile[BK][BN];
    const int x = get_local_id(0), y = get_local_id(1), item = y * ITEMS_X + x;
    const int j0 = get_group_id(0) * BN, i0 = get_group_id(1) * BM;
    OPERANDS(get_group_id(2));
    TV c[TM][VECTORS];
    for (int r = 0; r < TM; r++)
        for (int v = 0; v < VECTORS; v++) c[r][v] = (TV)(ZERO);
    for (int p0 = 0; p0 < k; p0 += BK) {
        const int steps = min(BK, k - p0);
        // A's tile is column-major. Neighbouring items read along the contiguous axis of an operand.
        for (int e = item; e < BM * BK; e += ITEMS) {
            const int r = A_BY_COLUMNS ? e % BM : e / BK, p = A_BY_COLUMNS ? e / BM : e % BK;
            a_tile[p][r] = i0 + r < m && p < steps ? A(i0 + r, p0 + p) : ZERO;
        }
        if (B_VECTORS && j0 + BN <= n && steps == BK) {
            for (int e = item; e < BN * BK / WIDTH; e += ITEMS) {
                const int p = e / (BN / WIDTH), s = e % (BN / WIDTH) * WIDTH;
                STORE_VECTOR(LOAD_B_VECTOR(p0 + p, j0 + s), &b_tile[p][s]);
            }
        } else {
            for (int e = item; e < BN * BK; e += ITEMS) {
                const int s = B_BY_COLUMNS ? e / BK : e % BN, p = B_BY_COLUMNS ? e % BK : e / BN;
                b_tile[p][s] = j0 + s < n && p < steps ? B(p0 + p, j0 + s) : ZERO;
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < steps; p++) {
            TV b[VECTORS];
            for (int v = 0; v < VECTORS; v++) b[v] = LOAD_VECTOR(&b_tile[p][COLUMN(v)]);
            for (int r = 0; r < TM; r++) {
                const TV a = (TV)(a_tile[p][y * TM + r]);
                for (int v = 0; v < VECTORS; v++) c[r][v] = accumulate_vector(c[r][v], a, b[v]);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int r = 0; r < TM; r++) {
        const int i = i0 + y * TM + r;
        for (int v = 0; v < VECTORS; v++) {
            T row[WIDTH];
            STORE_VECTOR(c[r][v], row);
            for (int s = 0; s < WIDTH; s++) {
                const int j = j0 + COLUMN(v) + s;
                if (i < m && j < n) STORE(i, j, row[s]);
            }
        }
    }
}
