// Reads of textures and surfaces, a line of 32 numbers for each; `test_textures.py` has what they must be.
#include <cstdio>

constexpr int W = 5, H = 4, D = 3;

__global__ void plane(cudaTextureObject_t t, float *out, float sx, float sy) {
    float i = threadIdx.x;
    out[threadIdx.x] = tex2D<float>(t, (i * 0.113f - 0.7f) * sx, (i * 0.071f - 0.6f) * sy);
}
__global__ void box(cudaTextureObject_t t, float *out) {
    float i = threadIdx.x;
    out[threadIdx.x] = tex3D<float>(t, i * 0.19f - 0.4f, i * 0.14f - 0.2f, i * 0.11f - 0.3f);
}
__global__ void colours(cudaTextureObject_t t, float *out) {
    float4 found = tex2D<float4>(t, threadIdx.x * 0.15f, 1.3f);
    out[threadIdx.x] = found.x + 10 * found.y + 100 * found.z + 1000 * found.w;
}
__global__ void layers(cudaTextureObject_t t, float *out) {
    out[threadIdx.x] = tex2DLayered<float>(t, threadIdx.x % 5, 2.f, int(threadIdx.x) / 5);
}
__global__ void cube(cudaTextureObject_t t, float *out) {
    float i = threadIdx.x, x = cosf(i), y = sinf(2 * i), z = cosf(3 * i + 1);
    out[threadIdx.x] = texCubemap<float>(t, x, y, z);
}
__global__ void words(cudaTextureObject_t t, float *out) {
    out[threadIdx.x] = tex1Dfetch<short>(t, int(threadIdx.x) - 2);
}
__global__ void four(cudaTextureObject_t t, float *out) {
    float4 found = tex2Dgather<float4>(t, threadIdx.x % 4 + 1.f, threadIdx.x / 4 * 0.4f + 1);
    out[threadIdx.x] = found.x + 100 * found.y + 10000 * found.z + 1000000 * found.w;
}
__global__ void surface(cudaSurfaceObject_t s, float *out) {
    int x = threadIdx.x;
    if (x < 4) surf2Dwrite(float(100 + x), s, (x + 3) * 4, 1, cudaBoundaryModeZero);
    __syncthreads();
    float zero, clamp;
    surf2Dread(&zero, s, (x % 8 - 1) * 4, x / 8 - 1, cudaBoundaryModeZero);
    surf2Dread(&clamp, s, (x % 8 - 1) * 4, x / 8 - 1, cudaBoundaryModeClamp);
    out[x] = zero * 1000 + clamp;
}
__global__ void outside(cudaSurfaceObject_t s, float *out) { surf2Dread(out, s, 4 * threadIdx.x, 0); }

float *device, host[32];

void show(const char *name) {
    cudaError_t error = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s", error ? cudaGetErrorName(error) : name);
    for (float value : host) printf(" %.9g", value);
    puts("");
}

cudaTextureObject_t texture(cudaResourceDesc resource, int mode, bool linear, bool normalized, bool fractions = false) {
    cudaTextureDesc how = {};
    for (auto &one : how.addressMode) one = cudaTextureAddressMode(mode);
    how.filterMode = linear ? cudaFilterModeLinear : cudaFilterModePoint;
    how.readMode = fractions ? cudaReadModeNormalizedFloat : cudaReadModeElementType;
    how.normalizedCoords = normalized;
    cudaTextureObject_t made = 0;
    if (cudaError_t error = cudaCreateTextureObject(&made, &resource, &how, nullptr)) puts(cudaGetErrorName(error));
    return made;
}

// An array of so many planes, with what the numbers say.
template <class T> cudaResourceDesc array(const T *numbers, cudaExtent extent, int flags) {
    cudaChannelFormatDesc form = cudaCreateChannelDesc<T>();
    cudaResourceDesc made = {};
    made.resType = cudaResourceTypeArray;
    cudaMalloc3DArray(&made.res.array.array, &form, extent, flags);
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr((void *)numbers, extent.width * sizeof(T), extent.width, extent.height);
    copy.dstArray = made.res.array.array;
    copy.extent = make_cudaExtent(extent.width, extent.height, extent.depth ? extent.depth : 1);
    copy.kind = cudaMemcpyHostToDevice;
    if (cudaError_t error = cudaMemcpy3D(&copy)) puts(cudaGetErrorName(error));
    return made;
}

int main() {
    float numbers[6 * W * H];
    for (int i = 0; i < 6 * W * H; i++) numbers[i] = i * i % 97;
    uchar4 bytes[W * H];
    for (int i = 0; i < W * H; i++) bytes[i] = {(unsigned char)(i * 7), (unsigned char)(i * 11), 255, (unsigned char)i};
    cudaMalloc(&device, sizeof host);
    auto flat = array(numbers, {W, H, 0}, cudaArraySurfaceLoadStore);
    for (int mode = 0; mode < 4; mode++)
        for (int linear = 0; linear < 2; linear++)
            for (int normalized = 0; normalized < 2; normalized++) {
                plane<<<1, 32>>>(texture(flat, mode, linear, normalized), device, normalized ? 1 : W,
                                 normalized ? 1 : H);
                show("plane");
            }
    box<<<1, 32>>>(texture(array(numbers, {W, H, D}, 0), cudaAddressModeClamp, true, false), device), show("box");
    colours<<<1, 32>>>(texture(array(bytes, {W, H, 0}, 0), cudaAddressModeClamp, true, false, true), device);
    show("colours");
    auto layered = array(numbers, {W, H, D}, cudaArrayLayered);
    layers<<<1, 32>>>(texture(layered, cudaAddressModeClamp, false, false), device), show("layers");
    auto faces = array(numbers, {4, 4, 6}, cudaArrayCubemap);
    cube<<<1, 32>>>(texture(faces, cudaAddressModeClamp, false, true), device), show("cube");
    short *line, given[20];
    for (int i = 0; i < 20; i++) given[i] = 50 - 9 * i;
    cudaMalloc(&line, sizeof given), cudaMemcpy(line, given, sizeof given, cudaMemcpyHostToDevice);
    cudaResourceDesc linear = {};
    linear.resType = cudaResourceTypeLinear, linear.res.linear.devPtr = line;
    linear.res.linear.desc = cudaCreateChannelDesc<short>(), linear.res.linear.sizeInBytes = sizeof given;
    words<<<1, 32>>>(texture(linear, 1, false, false), device), show("words");
    four<<<1, 32>>>(texture(flat, cudaAddressModeClamp, false, false), device), show("four");
    cudaSurfaceObject_t object;
    cudaCreateSurfaceObject(&object, &flat);
    surface<<<1, 32>>>(object, device), show("surface");
    cudaArray_t array = flat.res.array.array;
    cudaMemcpy2DFromArray(host, W * 4, array, 0, 1, W * 4, 1, cudaMemcpyDeviceToHost);
    printf("row %g %g %g\n", host[0], host[3], host[4]);
    printf("%s\n", cudaGetErrorName(cudaMemcpy2DFromArray(host, W * 4, array, 8, 0, W * 4, 1, cudaMemcpyDeviceToHost)));
    linear.res.linear.desc.y = 8;
    texture(linear, 1, false, false);
    linear.res.linear.desc.y = 0;
    cudaTextureDesc curved = {};
    curved.sRGB = 1;
    cudaTextureObject_t none;
    puts(cudaGetErrorName(cudaCreateTextureObject(&none, &linear, &curved, nullptr)));
    auto whole = ::array(bytes, {W, H, 0}, 0);
    puts(texture(whole, cudaAddressModeClamp, true, false) ? "filtered" : "none");
    outside<<<1, 6>>>(object, device);
    printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
