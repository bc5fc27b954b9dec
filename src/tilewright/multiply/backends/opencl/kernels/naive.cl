// One work-item per element of C reads a row of A and a column of B: the first rung of the ladder.
// Source: S4, the naive kernel of Numba's ROC target, with the column along dimension 0, so that neighbouring items
// read the same cache lines.
kernel void naive(PARAMETERS) {
    const int j = get_global_id(0), i = get_global_id(1);
    OPERANDS(get_global_id(2));
    if (i >= m || j >= n) return;
    T c = ZERO;
    for (int p = 0; p < k; p++) c = accumulate(c, A(i, p), B(p, j));
    STORE(i, j, c);
}
