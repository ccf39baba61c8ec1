extern "C" __global__ void stencil(const double *in, double *out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= nx || y >= ny || z >= nz) return;
    auto at = [&](int i, int j, int k) { return i < 0 || j < 0 || k < 0 || i >= nx || j >= ny || k >= nz ? 0.0 : in[(k * ny + j) * nx + i]; };
    out[(z * ny + y) * nx + x] = at(x - 1, y, z) + at(x + 1, y, z) + at(x, y - 1, z) + at(x, y + 1, z) + at(x, y, z - 1) + at(x, y, z + 1) - 6.0 * at(x, y, z);
}
