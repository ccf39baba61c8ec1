// Level-synchronous breadth-first search of a graph in CSR form.
#include <cstdio>
#include <iostream>
#include <queue>
#include <vector>

struct Graph {
  int vertices;
  const int *offsets;
  const int *edges;
};

__global__ void bfs_level(Graph graph, int *distance, const int *frontier, int frontier_size, int *next,
                          int *next_size, int level) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  if (tid >= frontier_size) return;
  int vertex = frontier[tid];
  for (int e = graph.offsets[vertex]; e < graph.offsets[vertex + 1]; ++e) {
    int neighbor = graph.edges[e];
    if (atomicCAS(&distance[neighbor], -1, level + 1) == -1) {
      int slot = atomicAdd(next_size, 1);
      next[slot] = neighbor;
    }
  }
}

static std::vector<int> bfs_host(const std::vector<int>& offsets, const std::vector<int>& edges, int source) {
  std::vector<int> distance(offsets.size() - 1, -1);
  std::queue<int> todo;
  distance[source] = 0;
  todo.push(source);
  while (!todo.empty()) {
    int v = todo.front();
    todo.pop();
    for (int e = offsets[v]; e < offsets[v + 1]; ++e)
      if (distance[edges[e]] < 0) {
        distance[edges[e]] = distance[v] + 1;
        todo.push(edges[e]);
      }
  }
  return distance;
}

template <typename T>
T *upload(const std::vector<T>& v) {
  T *p = nullptr;
  if (cudaMalloc(&p, v.size() * sizeof(T)) != cudaSuccess) std::abort();
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}

int main() {
  const int n = 1000;
  std::vector<int> offsets{0}, edges;
  for (int v = 0; v < n; ++v) {
    for (int other : {(v * 2 + 1) % n, (v * 7 + 3) % n, (v + 1) % n}) edges.push_back(other);
    offsets.push_back((int)edges.size());
  }
  Graph graph{n, upload(offsets), upload(edges)};
  std::vector<int> distance(n, -1), first{0};
  distance[0] = 0;
  int *d_distance = upload(distance), *d_frontier = upload(std::vector<int>(n)), *d_next = upload(std::vector<int>(n));
  int *d_size = upload(first), size = 1, level = 0;
  cudaMemcpy(d_frontier, first.data(), sizeof(int), cudaMemcpyHostToDevice);
  while (size > 0) {
    cudaMemset(d_size, 0, sizeof(int));
    bfs_level<<<(size + 63) / 64, 64>>>(graph, d_distance, d_frontier, size, d_next, d_size, level++);
    cudaMemcpy(&size, d_size, sizeof(int), cudaMemcpyDeviceToHost);
    std::swap(d_frontier, d_next);
  }
  cudaMemcpy(distance.data(), d_distance, n * sizeof(int), cudaMemcpyDeviceToHost);
  bool same = distance == bfs_host(offsets, edges, 0);
  std::cout << (same ? "same distances" : "distances differ") << " after " << level << " levels\n";
  return same ? 0 : 1;
}
