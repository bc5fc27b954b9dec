// The functions of cuBLAS under the other name of their header.
#include "cublas_v2.h"
