// CSR sparse matrix times vector: a sub-warp of THREADS_PER_ROW lanes for each row.
#include <cmath>
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <utility>
#include <vector>

#ifndef THREADS_PER_ROW
#define THREADS_PER_ROW 8
#endif

template <typename IndexType, typename ValueType, int VECTOR_SIZE>
__global__ void spmv_csr_vector(const IndexType num_rows, const IndexType *__restrict__ Ap,
                                const IndexType *__restrict__ Aj, const ValueType *__restrict__ Ax,
                                const ValueType *__restrict__ x, ValueType *__restrict__ y) {
  const IndexType thread_id = blockDim.x * blockIdx.x + threadIdx.x;
  const IndexType lane = threadIdx.x & (VECTOR_SIZE - 1);
  const IndexType row = thread_id / VECTOR_SIZE;

  ValueType sum = 0;
  if (row < num_rows) {
    for (IndexType jj = __ldg(&Ap[row]) + lane; jj < __ldg(&Ap[row + 1]); jj += VECTOR_SIZE)
      sum += Ax[jj] * x[Aj[jj]];
  }
  for (int offset = VECTOR_SIZE / 2; offset > 0; offset /= 2)
    sum += __shfl_down_sync(0xffffffff, sum, offset, VECTOR_SIZE);
  if (row < num_rows && lane == 0) y[row] = sum;
}

template <typename IndexType, typename ValueType>
void spmv(int rows, const IndexType *Ap, const IndexType *Aj, const ValueType *Ax, const ValueType *x, ValueType *y) {
  const int block_size = 128;
  const int blocks = (rows * THREADS_PER_ROW + block_size - 1) / block_size;
  spmv_csr_vector<IndexType, ValueType, THREADS_PER_ROW><<<blocks, block_size>>>(rows, Ap, Aj, Ax, x, y);
}

int main() {
  const int n = 500;  // the matrix of a one-dimensional Laplacian
  std::vector<int> Ap{0}, Aj;
  std::vector<double> Ax;
  for (int i = 0; i < n; i++) {
    for (auto entry : {std::make_pair(i - 1, -1.0), std::make_pair(i, 2.0), std::make_pair(i + 1, -1.0)})
      if (entry.first >= 0 && entry.first < n) {
        Aj.push_back(entry.first);
        Ax.push_back(entry.second);
      }
    Ap.push_back(static_cast<int>(Aj.size()));
  }
  int *dAp, *dAj;
  double *dAx, *dx, *dy;
  cudaMallocManaged(&dAp, Ap.size() * sizeof(int));
  cudaMallocManaged(&dAj, Aj.size() * sizeof(int));
  cudaMallocManaged(&dAx, Ax.size() * sizeof(double));
  cudaMallocManaged(&dx, n * sizeof(double));
  cudaMallocManaged(&dy, n * sizeof(double));
  std::copy(Ap.begin(), Ap.end(), dAp);
  std::copy(Aj.begin(), Aj.end(), dAj);
  std::copy(Ax.begin(), Ax.end(), dAx);
  for (int i = 0; i < n; i++) dx[i] = i * i;
  spmv<int, double>(n, dAp, dAj, dAx, dx, dy);
  cudaDeviceSynchronize();
  for (int i = 1; i < n - 1; i++)
    if (dy[i] != -2.0) { std::cout << std::setprecision(3) << "y[" << i << "] = " << dy[i] << std::endl; return 1; }
  return 0;
}
