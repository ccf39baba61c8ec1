// The kernels of cub::DeviceReduce, DeviceScan and DeviceRadixSort for one type each, with what the host's dispatch gives them.
// CUB lets its users say what a kernel is: here it is a function, so that an entry makes the structures that the host would pass.
#define _CCCL_KERNEL_ATTRIBUTES __device__ __forceinline__
#undef __launch_bounds__
#define __launch_bounds__(...)
__device__ inline void cudaGridDependencySynchronize() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ inline void cudaTriggerProgrammaticLaunchCompletion() { asm volatile("griddepcontrol.launch_dependents;"); }
#include <cub/device/dispatch/kernels/kernel_radix_sort.cuh>
#include <cub/device/dispatch/kernels/kernel_reduce.cuh>
#include <cub/device/dispatch/kernels/kernel_scan.cuh>
#include <cub/grid/grid_even_share.cuh>
#include <cub/thread/thread_operators.cuh>
#include <cuda/std/functional>

#define KERNEL extern "C" __global__ void
using Offset = unsigned;
using Sum = cuda::std::plus<>;

namespace r = cub::detail::reduce;
namespace s = cub::detail::scan;
namespace q = cub::detail::radix_sort;
using Reduce = r::policy_selector_from_types<float, Offset, Sum>;
using Scan = s::policy_selector_from_types<int*, int*, int, Offset, Sum>;
using Sort = q::policy_selector_from_types<unsigned, cub::NullType, Offset>;
using State = cub::ScanTileState<int>;
constexpr auto Up = cub::SortOrder::Ascending;

// What the host reads of the policies: threads and items of a thread, of each kernel that is launched; lookback and onesweep.
KERNEL device_policies(int* out) {
  constexpr auto a = cub::detail::current_policy<Reduce>();
  constexpr auto b = cub::detail::current_policy<Scan>();
  constexpr auto c = cub::detail::current_policy<Sort>();
  const int found[] = {a.multi_tile.threads_per_block, a.multi_tile.items_per_thread, a.single_tile.threads_per_block,
                       b.lookback.threads_per_block, b.lookback.items_per_thread, c.histogram.threads_per_block,
                       c.exclusive_sum.threads_per_block, c.onesweep.threads_per_block, c.onesweep.items_per_thread,
                       c.onesweep.radix_bits, b.algorithm == cub::ScanAlgorithm::lookback, c.algorithm == cub::RadixSortAlgorithm::onesweep};
  for (int i = 0; i < sizeof(found) / sizeof(int); ++i) out[i] = found[i];
}

KERNEL device_reduce(const float* x, float* partial, Offset n, int max_blocks, int tile) {
  cub::GridEvenShare<Offset> share;
  share.DispatchInit(n, max_blocks, tile);
  r::DeviceReduceKernel<Reduce, true, const float*, float*, Offset, Offset, Sum, float, float, cuda::std::identity>(
    x, partial, n, share, Sum{}, 0.f, cuda::std::identity{});
}
KERNEL device_reduce_last(const float* partial, float* out, Offset n, float init) {
  r::DeviceReduceSingleTileKernel<Reduce, const float*, float*, Offset, Sum, float, float>(
    partial, out, n, Sum{}, init, cuda::std::identity{});
}

__device__ auto state_of(void* storage) -> s::tile_state_kernel_arg_t<State, int> {
  s::tile_state_kernel_arg_t<State, int> found;
  found.lookback.Init(0, storage, 0);
  return found;
}
KERNEL device_scan_init(void* storage, int tiles) {
  s::DeviceScanInitKernel<Scan, int*, int*, State, int>(state_of(storage), tiles);
}
KERNEL device_scan(int* x, int* out, void* storage, Offset n) {
  s::DeviceScanKernel<Scan, int*, int*, State, Sum, cub::detail::InputValue<int>, Offset, int, false>(
    x, out, state_of(storage), 0, Sum{}, cub::detail::InputValue<int>(0), n, 1);
}

KERNEL device_sort_init(int* counters, size_t n, Offset* bins, size_t m) {
  q::DeviceRadixSortInitKernel<Sort>(counters, n, bins, m);
}
KERNEL device_sort_histogram(Offset* bins, const unsigned* keys, Offset n) {
  q::DeviceRadixSortHistogramKernel<Sort, Up, unsigned, Offset>(bins, keys, n, 0, 32);
}
KERNEL device_sort_sums(Offset* bins) { q::DeviceRadixSortExclusiveSumKernel<Sort, Offset>(bins); }
KERNEL device_sort_pass(int* lookback, int* counter, Offset* bins, unsigned* to, const unsigned* from, int n, int bit, int bits) {
  q::DeviceRadixSortOnesweepKernel<Sort, Up, unsigned, cub::NullType, Offset, int>(
    lookback, counter, nullptr, bins, to, from, nullptr, nullptr, n, bit, bits);
}
