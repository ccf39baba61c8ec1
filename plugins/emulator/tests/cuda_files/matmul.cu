#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

template <typename T>
struct Matrix {
  int rows, cols;
  T *data;
  __host__ __device__ T &operator()(int r, int c) const { return data[r * cols + c]; }
};

// C = alpha A B + beta C
template <typename T>
__global__ void gemm(Matrix<T> A, Matrix<T> B, Matrix<T> C, T alpha, T beta) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= C.rows || col >= C.cols) return;
  T sum = T(0);
  for (int k = 0; k < A.cols; ++k) sum += A(row, k) * B(k, col);
  C(row, col) = alpha * sum + beta * C(row, col);
}

static void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

template <typename T>
class DeviceMatrix {
 public:
  DeviceMatrix(int rows, int cols, T value) : host_(rows * cols, value), view_{rows, cols, nullptr} {
    check(cudaMalloc(&view_.data, bytes()));
    check(cudaMemcpy(view_.data, host_.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~DeviceMatrix() { cudaFree(view_.data); }
  Matrix<T> view() const { return view_; }
  const std::vector<T> &fetch() {
    check(cudaMemcpy(host_.data(), view_.data, bytes(), cudaMemcpyDeviceToHost));
    return host_;
  }

 private:
  size_t bytes() const { return host_.size() * sizeof(T); }
  std::vector<T> host_;
  Matrix<T> view_;
};

int main() try {
  DeviceMatrix<double> a(40, 30, 2.0), b(30, 50, 0.5), c(40, 50, 1.0);
  dim3 threads(16, 16), blocks((50 + 15) / 16, (40 + 15) / 16);
  gemm<double><<<blocks, threads>>>(a.view(), b.view(), c.view(), 2.0, -1.0);
  check(cudaGetLastError());
  for (double v : c.fetch())
    if (v != 2.0 * 30 - 1.0) throw std::runtime_error("wrong result " + std::to_string(v));
  std::cout << "ok\n";
  return EXIT_SUCCESS;
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return EXIT_FAILURE;
}
