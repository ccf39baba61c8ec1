// A stack on the device's heap, with operations chosen by function pointers.
#include <cstdio>
#include <cstdlib>
#include <new>

#define N_OPERATIONS 3

struct Node {
  int value;
  Node *next;
};

class Stack {
 public:
  __device__ Stack() : head(nullptr) {}
  __device__ ~Stack() {
    while (head != nullptr) pop();
  }
  __device__ bool push(int value) {
    Node *node = static_cast<Node *>(malloc(sizeof(Node)));
    if (node == nullptr) return false;
    node->value = value;
    node->next = head;
    head = node;
    return true;
  }
  __device__ int pop() {
    Node *top = head;
    int value = top->value;
    head = top->next;
    free(top);
    return value;
  }
  __device__ bool empty() const { return head == nullptr; }

 private:
  Node *head;
};

typedef int (*Operation)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ Operation operations[N_OPERATIONS] = {add, subtract, multiply};

__global__ void fold(int *results, int count) {
  Stack *stack = new Stack;
  for (int i = 1; i <= count; ++i)
    if (!stack->push(i)) return;
  Operation operation = operations[threadIdx.x % N_OPERATIONS];
  int result = stack->pop();
  while (!stack->empty()) result = operation(result, stack->pop());
  delete stack;
  results[blockIdx.x * blockDim.x + threadIdx.x] = result;
}

int main() {
  const int threads = 64, count = 5;
  int *d_results, results[threads];
  size_t heap = 0;
  cudaDeviceSetLimit(cudaLimitMallocHeapSize, 16 * 1024 * 1024);
  cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize);
  cudaMalloc(&d_results, sizeof(results));
  fold<<<1, threads>>>(d_results, count);
  cudaError_t status = cudaMemcpy(results, d_results, sizeof(results), cudaMemcpyDeviceToHost);
  if (status != cudaSuccess) {
    fprintf(stderr, "%s\n", cudaGetErrorString(status));
    return EXIT_FAILURE;
  }
  const int expected[N_OPERATIONS] = {15, -5, 120};
  for (int t = 0; t < threads; ++t)
    if (results[t] != expected[t % N_OPERATIONS]) return EXIT_FAILURE;
  printf("heap of %zu bytes\n", heap);
  return EXIT_SUCCESS;
}
