#include <complex>
#include <cstdio>
#include <fstream>
#include <vector>

#define DIM_X 200
#define DIM_Y 120
#define MAX_ITER 64

struct cuComplex {
    float r, i;
    __device__ cuComplex(float a, float b) : r(a), i(b) {}
    __device__ float magnitude2() const { return r * r + i * i; }
    __device__ cuComplex operator*(const cuComplex& a) const { return cuComplex(r * a.r - i * a.i, i * a.r + r * a.i); }
    __device__ cuComplex operator+(const cuComplex& a) const { return cuComplex(r + a.r, i + a.i); }
};

__device__ int escape(float x, float y) {
    cuComplex c(x, y), z(0.0f, 0.0f);
    int n = 0;
    while (n < MAX_ITER && z.magnitude2() <= 4.0f) {
        z = z * z + c;
        n++;
    }
    return n;
}

__device__ const uchar4 palette[4] = {{0, 7, 100, 255}, {32, 107, 203, 255}, {237, 255, 255, 255}, {255, 170, 0, 255}};

__global__ void mandelbrot(uchar4 *image, int width, int height, float2 center, float scale) {
    int px = blockIdx.x * blockDim.x + threadIdx.x;
    int py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    float x = center.x + (px - width / 2) * scale;
    float y = center.y + (py - height / 2) * scale;
    int n = escape(x, y);
    image[py * width + px] = n == MAX_ITER ? make_uchar4(0, 0, 0, 255) : palette[n % 4];
}

int host_escape(float x, float y) {
    std::complex<float> z = 0, c(x, y);
    int n = 0;
    for (; n < MAX_ITER && std::norm(z) <= 4.0f; n++) z = z * z + c;
    return n;
}

int main() {
    std::vector<uchar4> image(DIM_X * DIM_Y);
    uchar4 *dev;
    cudaMalloc(&dev, image.size() * sizeof(uchar4));
    mandelbrot<<<dim3((DIM_X + 15) / 16, (DIM_Y + 15) / 16), dim3(16, 16)>>>(dev, DIM_X, DIM_Y, make_float2(-0.5f, 0.0f), 0.0125f);
    cudaMemcpy(image.data(), dev, image.size() * sizeof(uchar4), cudaMemcpyDeviceToHost);
    std::ofstream file("mandelbrot.ppm", std::ios::binary);
    file << "P6\n" << DIM_X << " " << DIM_Y << "\n255\n";
    for (const uchar4& p : image) file.put(p.x).put(p.y).put(p.z);
    bool black = image[DIM_Y / 2 * DIM_X + DIM_X / 2].x == 0;
    return black == (host_escape(-0.5f, 0.0f) == MAX_ITER) ? 0 : 1;
}
