"""CUDA C++ files as people write them: with headers of C and C++, ``main`` and launches."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner
from tilecopy_emulator import UnsupportedPtxError, run_cuda
from tilecopy_emulator.command import emulate
from tilecopy_emulator.cuda_cpp import compile_cuda
from tilecopy_test_helpers.mentions import mentions

pytest.importorskip("cuda.bindings.nvrtc")

SCALE = r"""
#include <algorithm>
#include <cstdio>
#include <helper_cuda.h>
#include <vector>
#define CHECK(call) if ((call) != cudaSuccess) { fprintf(stderr, "%s\n", #call); exit(1); }
const int BLOCK = 64;
template <typename T, int FACTOR>
__global__ void scale(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= FACTOR;
}
static void fill(std::vector<float>& v) { std::fill(v.begin(), v.end(), 1.0f); }
int main() {
  std::vector<float> v(256);
  fill(v);
  float* d;
  CHECK(cudaMalloc(&d, 1024));
  const int factor = 3;
  scale<float, factor><<<256 / BLOCK, BLOCK>>>(d, 256);
  return 0;
}
"""


@pytest.fixture(autouse=True)
def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


def test_host_code_is_left_out_and_the_launched_instance_is_taken() -> None:
    x = np.ones(256, np.float32)
    report = run_cuda(SCALE, [x, 256], grid=4, block=64)
    assert (x == 3).all()
    said = "\n".join(report.notes)
    assert mentions("main", 14, "fill", 13).search(said) and mentions("helper_cuda.h").search(said)


def test_a_file_that_compiles_as_it_is_has_no_notes() -> None:
    source = "#include <stdio.h>\n#include <assert.h>\n#include <cstdint>\n__global__ void k(uint8_t* x) { *x = 1; }"
    assert compile_cuda(source).notes == ()


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("*x = INFINITY;", np.inf),
        ("*x = -FLT_MAX;", -np.finfo(np.float32).max),
        ("uint n = UINT_MAX; *x = n >> 24;", 255),
        ("off_t n = 7; ssize_t m = -1; *x = n + m;", 6),
        ("int64_t n = INT64_MAX; *x = n >> 56;", 127),
        ("constexpr float low = -INFINITY; *x = low;", -np.inf),
        ("*x = (float)M_PI;", np.float32(np.pi)),
    ],
)
def test_what_the_first_header_of_nvcc_gives_is_known(body: str, value: float) -> None:
    x = np.zeros(1, np.float32)
    run_cuda(f"__global__ void k(float* x) {{ {body} }}", [x], grid=1, block=1)
    assert x[0] == value


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("algorithm", "*x = std::max(std::min(7, n), 3);"),
        ("cmath", "*x = std::sqrt(49.0f);"),
        ("math.h", "*x = fmaxf(sqrtf(49.0f), -HUGE_VALF);"),
        ("limits", "*x = std::numeric_limits<float>::max() > 1 ? 7 : 0;"),
        ("type_traits", "*x = std::is_same<int, int>::value ? 7 : 0;"),
        ("utility", "int a = 7; b = 1; std::swap(a, b); *x = b;"),
        ("cstring", "int a = 7; memcpy(&b, &a, 4); *x = b;"),
        ("cfloat", "*x = FLT_EPSILON < 1 ? 7 : 0;"),
        ("cuda_runtime.h", "*x = 7;"),
        ("cuda.h", "*x = sizeof(CUtensorMap) == 128 ? 7 : 0;"),
        ("cuda_bf16.h", "*x = __bfloat162float(__float2bfloat16(7.0f));"),
    ],
)
def test_headers_of_c_and_cpp(header: str, body: str) -> None:
    source = f"#include <{header}>\n#include <iostream>\n__global__ void k(float* x, int n) {{ int b; {body} }}\nint main() {{}}"
    x = np.zeros(1, np.float32)
    run_cuda(source, [x, 9], grid=1, block=1)
    assert x[0] == 7


def test_a_kernel_that_a_macro_makes_runs() -> None:
    """No declaration of the file names it; the PTX has it."""
    source = """
#include <cstdio>
#define KERNEL(name, op) __global__ void name(float* x) { x[threadIdx.x] = x[threadIdx.x] op 2.0f; }
KERNEL(twice, *)
int main() { float* x; cudaMalloc(&x, 128); twice<<<1, 32>>>(x); printf("done\\n"); }
"""
    x = np.ones(32, np.float32)
    run_cuda(source, [x], grid=1, block=32)
    assert (x == 2).all()


def test_math_functions_are_not_ambiguous_after_using_namespace_std() -> None:
    """libstdc++'s sqrtf is the global one; libcu++ has its own."""
    source = """
#include <algorithm>
#include <cmath>
#include <iostream>
using namespace std;
__device__ float hypotenuse(float a, float b) { return sqrtf(a * a + powf(b, 2.0f)); }
__global__ void k(float* x) { *x = hypotenuse(3, 4) + std::max(1.0f, *x); }
int main() { cout << "done" << endl; }
"""
    for text in (
        source,
        source.replace("__global__", "template <int N> __global__").replace(
            "int main() {", "int main() { k<1><<<1, 1>>>(0);"
        ),
    ):
        x = np.ones(1, np.float32)
        run_cuda(text.replace("hypotenuse(3, 4)", "sqrtf(25 * *x)"), [x], grid=1, block=1)
        assert x[0] == 6


def test_names_of_the_namespace_std_are_known_without_their_prefix() -> None:
    source = """
#include <utility>
using namespace std;
__global__ void k(float* x, float* y) { swap(*x, *y); }
int main() {}
"""
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    run_cuda(source, [x, y], grid=1, block=1)
    assert (x[0], y[0]) == (0, 1)


@pytest.mark.parametrize("header", ["stdint.h", "cstdint", "float.h", "limits.h", "algorithm", "math.h", "complex"])
def test_headers_inside_a_block_of_c_linkage(header: str) -> None:
    source = f"""
extern "C" {{
#include <{header}>
}}
__global__ void k(float* x) {{ *x = std::max(2.0f, 1.0f); }}
int main() {{}}
"""
    x = np.zeros(1, np.float32)
    run_cuda(source.replace("std::max", "fmaxf") if header != "algorithm" else source, [x], grid=1, block=1)
    assert x[0] == 2


def test_indented_directives_stay() -> None:
    source = """
#include <cstdio>

  #ifdef TILE_SIZE
    #define TILE TILE_SIZE
  #else

    #define TILE 16
  #endif

float scale = 3;
__global__ void k(float* x) { __shared__ float tile[TILE]; tile[0] = TILE; *x = tile[0]; }
int main() {}
"""
    x = np.zeros(1, np.float32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 16


def test_operators_and_types_with_attributes_are_declarations_of_their_own() -> None:
    source = """
#include <vector>
#define ALIGN(bytes) __align__(bytes)
typedef struct __builtin_align__(16) quad { int x, y, z, w; } quad;
struct ALIGN(32) Pair : quad { int second; };
typedef struct ALIGN(4) { int only; } single;
__device__ quad& operator ^=(quad& a, const quad& b) { a.x ^= b.x; return a; }
__device__ bool operator<=(const quad& a, const quad& b) { return a.x <= b.x; }
struct Twice { __device__ int operator()(int x) const { return 2 * x; } __device__ operator int() const { return 3; } };
void on_the_host() { std::vector<int> v; }
__device__ bool operator==(const quad& a, const quad& b) { return a.x == b.x; }
std::vector<int> also_on_the_host(struct quad q) { return {}; }
__global__ void k(int* x) {
  quad a{5}, b{3};
  a ^= b;
  *x = Twice()(a.x) + Twice() + (a == a) + (b <= a) + alignof(Pair) + sizeof(single);
}
int main() { on_the_host(); }
"""
    x = np.zeros(1, np.int32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 2 * (5 ^ 3) + 3 + 1 + 1 + 32 + 4


def test_constants_of_the_host_may_use_each_other(tmp_path: Path) -> None:
    """In nvcc they are numbers; in device code by NVRTC, only constexpr is."""
    (tmp_path / "lifting.h").write_text(
        "const float update = -0.5f;\nstatic const double scale = 1.0 / update;\nconst float at_start = clock();\n"
    )
    source = (
        '#include "lifting.h"\n#include <vector>\n__global__ void k(float* x) { *x = scale * update; }\nint main() {}\n'
    )
    x = np.zeros(1, np.float32)
    run_cuda(source, [x], grid=1, block=1, name=str(tmp_path / "k.cu"))
    assert x[0] == 1


def test_names_of_std_whose_headers_only_the_headers_of_the_host_include() -> None:
    source = """
#include <iostream>
template <int N> struct Holder { static constexpr int size = std::max<int>(N, 2); };
__global__ void k(float* x) { *x = std::isinf(*x) ? Holder<1>::size : std::numeric_limits<float>::max(); }
template <class T> __global__ void sign(T* x) { *x = std::signbit(*x); }
int main() { std::cout << std::endl; }
"""
    for text, entry, before, after in (
        (source, "k", np.inf, 2),
        ("".join(line for line in source.splitlines(True) if "max" not in line), "sign<float>", -3, 1),
    ):
        x = np.full(1, before, np.float32)
        run_cuda(text, [x], entry=entry, grid=1, block=1)
        assert x[0] == after


def test_the_system_is_known() -> None:
    source = """
#if defined(__linux__)
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#else
#error unknown system
#endif
__global__ void k(int* x) { *x = 7; }
int main() { sleep(1); }
"""
    x = np.zeros(1, np.int32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 7


def test_complex_numbers_of_a_missing_cufft_header() -> None:
    source = (
        "#include <cufftXt.h>\n__global__ void k(cufftComplex* x) { x->y = x->x; }\nint main() { cufftHandle plan; }\n"
    )
    x = np.array([2, 0], np.float32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[1] == 2


def test_an_extension_of_pytorch_runs_for_float_and_for_half() -> None:
    source = """
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>
template <typename scalar_t>
__global__ void C10_LAUNCH_BOUNDS_1(32) half_of(scalar_t* x) { gpuAtomicAdd(x, scalar_t(1)); x[0] /= 4; }
template <typename scalar_t> C10_LAUNCH_BOUNDS_1(32) __global__ void scale(scalar_t* x, int n) {
  using acc_t = at::acc_type<scalar_t, true>;
  CUDA_KERNEL_LOOP(i, n) { x[i] = WARP_SHFL_XOR(static_cast<acc_t>(x[i]), 1) * acc_t(C10_WARP_SIZE); }
}
void launch(torch::Tensor x) {
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", ([&] {
    scale<scalar_t><<<1, 32>>>(x.data_ptr<scalar_t>(), x.numel());
  }));
}
"""
    x = np.ones(1, np.float64)
    run_cuda(source, [x], entry="half_of<double>", grid=1, block=1)
    assert x[0] == 0.5
    with_macro_of_file = source.replace("AT_DISPATCH", "MY_DISPATCH").replace("scale<scalar_t>", "scale<scalar_t_0>")
    for text, entry, dtype in (
        (source, None, np.float32),
        (source, "scale<at::Half>", np.float16),
        (with_macro_of_file, None, np.float32),
    ):
        x = np.ones(64, dtype)
        run_cuda(text, [x, 64], entry=entry, grid=1, block=32)
        assert (x == 32).all()


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "size.h").write_text("#define SIZE 3\n", encoding="utf-8-sig")
    x = np.zeros(1, np.int32)
    for host in ("", "int main() {}\n"):
        source = f'\ufeff#include "size.h"\n__global__ void k(int* x) {{ *x = SIZE; }}\n{host}'
        run_cuda(source, [x], grid=1, block=1, name=str(tmp_path / "k.cu"))
        assert x[0] == 3


def test_the_log_is_that_of_the_last_compilation() -> None:
    """The name that nvcc's first header gives is not among its errors."""
    with pytest.raises(tc.AssemblerError, match=mentions("of_other_file")) as caught:
        run_cuda("__global__ void k(uint* x) { *x = of_other_file(*x); }", [np.zeros(1, np.uint32)], grid=1, block=1)
    assert '"uint"' not in str(caught.value)


@pytest.mark.parametrize("header", ["cub/cub.cuh", "cub/device/device_reduce.cuh", "cub/util_allocator.cuh"])
def test_cub_of_blocks_and_warps(header: str) -> None:
    source = f"""
#include <{header}>
"""
    source += """
__global__ void total(const int* x, int* y) {
  using Reduce = cub::BlockReduce<int, 64>;
  __shared__ typename Reduce::TempStorage storage;
  int sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}
void launch(int* d, int n) { size_t bytes; cub::DeviceReduce::Sum(nullptr, bytes, d, d, n); }
"""
    y = np.zeros(1, np.int32)
    run_cuda(source, [np.arange(64, dtype=np.int32), y], grid=1, block=64)
    assert y[0] == 2016


def test_local_headers_are_read_in_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "sizes.h").write_text("#pragma once\n#define SIZE 32\n")
    (tmp_path / "common" / "timer.h").write_text(
        '#include "sizes.h"\n#include <chrono>\ndouble now() { return std::chrono::steady_clock::now(); }\n'
        "__device__ int double_it(int x) {\n  return x + x; }\n"
    )
    text = '#include "common/timer.h"\n__global__ void k(int* x) { x[threadIdx.x + at] = double_it(SIZE); }\nint main() { now(); }\n'
    (tmp_path / "k.cu").write_text(text.replace("at", "0"))
    x = np.zeros(32, np.int32)
    run_cuda(text.replace("at", "0"), [x], grid=1, block=32, name="k.cu")
    assert (x == 64).all()
    (tmp_path / "common" / "sizes.h").write_text("#pragma once\n#define SIZE 16\n")
    run_cuda(text.replace("at", "0"), [x], grid=1, block=32, name="k.cu")
    assert (x == 32).all()  # a header that has changed is read again


def test_a_hazard_in_a_local_header_has_its_path_and_line(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "put.h").write_text(
        "#include <chrono>\n__device__ void put(int* x, int i) { x[0] = i; }\nvoid host() {}\n"
    )
    source = '#include "common/put.h"\n__global__ void k(int* x) { put(x, threadIdx.x); }\nint main() {}\n'
    with pytest.raises(tc.HazardError) as caught:
        run_cuda(source, [np.zeros(1, np.int32)], grid=1, block=64, name=str(tmp_path / "k.cu"))
    assert mentions(f"{tmp_path / 'common' / 'put.h'}:2", "x[0] = i;", f"{tmp_path / 'k.cu'}:2").search(
        str(caught.value)
    )


def test_a_local_header_may_be_called_as_one_of_c(tmp_path: Path) -> None:
    (tmp_path / "complex.h").write_text("struct Complex { float re, im; };\n")
    x = np.zeros(1, np.float32)
    source = '#include "complex.h"\n__global__ void k(float* x) { Complex c = {1, 2}; *x = c.re + c.im; }\n'
    for text in (source, f"{source}int main() {{}}\n"):
        run_cuda(text, [x], grid=1, block=1, name=str(tmp_path / "k.cu"))
        assert x[0] == 3


def test_conditional_code_and_braces_in_strings_do_not_mislead() -> None:
    source = """
#if 0
it's } not C++ {
#endif
#ifdef __cplusplus
extern "C" {
#endif
__global__ void k(int* x);
#ifdef __cplusplus
}
#endif
const char* text = "} \\" {"; // }
char brace() { return '}'; }
const char* raw() { return R"x(}" } )x"; }
#ifdef DEBUG
int twice(int x) {
#else
int twice(int y, int x) {
#endif
  return x * 2; }
struct Pair { int a, b; Pair(int x) : a{x}, b(x) {} int sum() const { return a + b; } };
namespace inner { int unused() { return 1; }
__device__ int one() { return 1; } }
extern "C" __global__ void k(int* x) { Pair p(3); *x = p.sum() + inner::one(); }
"""
    x = np.zeros(1, np.int32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 7


def test_a_race_in_a_file_with_host_code_is_told_at_its_line() -> None:
    source = SCALE.replace("x[i] *= FACTOR", "x[i / 2] *= FACTOR")
    with pytest.raises(tc.HazardError, match=mentions("kernel.cu:11", "x[i / 2] *= FACTOR")):
        run_cuda(source, [np.ones(256, np.float32), 256], grid=4, block=64)


@pytest.mark.parametrize("kind", ["uint9_t", "half", "__nv_bfloat16", "unknown"])
def test_a_template_over_an_unknown_type_is_an_error_with_the_log(kind: str) -> None:
    source = f"template <int N> __global__ void k({kind}* x) {{ x[threadIdx.x] = N; }}"
    with pytest.raises(tc.AssemblerError, match=mentions(kind, "kernel.cu", 1)):
        run_cuda(source, [np.zeros(32, np.uint8)], entry="k<4>", grid=1, block=32)


def test_an_instance_alone_may_need_what_the_first_header_of_nvcc_gives() -> None:
    x = np.zeros(1, np.float32)
    source = "template <int N> __global__ void k(float* x) { uint n = N; *x = -FLT_MAX < 0 ? n : 0; }"
    run_cuda(source, [x], entry="k<4>", grid=1, block=1)
    assert x[0] == 4


def test_the_log_of_a_template_instance_is_shown() -> None:
    source = "template <class T> __global__ void k(T* x) { x->nothing(); }"
    with pytest.raises(tc.AssemblerError, match=mentions("k<float>", "kernel.cu", 1)):
        run_cuda(source, [np.zeros(1, np.float32)], entry="k<float>", grid=1, block=1)


def test_what_a_kernel_lacks_of_a_missing_header_is_an_error_that_names_both() -> None:
    source = "#include <my_library.h>\n__global__ void k(int* x) { *x = of_my_library(*x); }\nint main() { return 0; }"
    with pytest.raises(tc.AssemblerError, match=mentions("my_library.h", "of_my_library", "main")):
        run_cuda(source, [np.zeros(1, np.int32)], grid=1, block=1)


def test_the_error_of_a_file_with_curand_names_its_package() -> None:
    library = "curand"
    source = (
        f"#include <{library}_kernel.h>\n__global__ void k(curandState* x) {{ *x = curandState(); }}\nint main() {{}}\n"
    )
    with pytest.raises(tc.AssemblerError, match=mentions(f"{library}_kernel.h")) as caught:
        run_cuda(source, [np.zeros(64, np.uint8)], grid=1, block=1)
    assert str(caught.value).endswith(library)


def test_a_function_of_another_file_is_refused_by_its_name() -> None:
    source = "__device__ int of_other_file(int);\n__global__ void k(int* x) { *x = of_other_file(*x); }\n"
    with pytest.raises(UnsupportedPtxError, match=mentions("of_other_file")):
        run_cuda(source, [np.zeros(1, np.int32)], grid=1, block=1)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ("tuple", "auto t = thrust::make_tuple(1, 7.0f); *x = thrust::get<1>(t);"),
        ("pair", "thrust::pair<int, float> p(1, 7); *x = p.second;"),
        ("functional", "*x = thrust::plus<float>()(3, 4);"),
        ("complex", "thrust::complex<float> c(1, 2); *x = (c * c).imag() + thrust::abs(thrust::complex<float>(0, 3));"),
    ],
)
def test_types_of_thrust_that_kernels_use_beside_headers_of_the_host(header: str, body: str) -> None:
    source = f"""
#include <thrust/device_vector.h>
#include <thrust/{header}.h>
#include <thrust/sort.h>
__global__ void k(float* x) {{ {body} }}
int main() {{ thrust::device_vector<float> v(3); thrust::sort(v.begin(), v.end()); }}
"""
    x = np.zeros(1, np.float32)
    run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 7


def test_several_kernels_are_named_with_their_instances() -> None:
    with pytest.raises(tc.LaunchError, match=mentions("scale<float, 3>", "scale<float, 4>")):
        run_cuda(
            SCALE + "void other(float* d) { scale<float, 4><<<1, 2>>>(d, 2); }",
            [np.ones(2, np.float32), 2],
            grid=1,
            block=2,
        )


def test_instances_of_namespaces_have_their_full_names() -> None:
    source = """
#include <cstdio>
namespace outer { namespace inner {
template <int N> __global__ void k(int* x) { *x = N; }
void launch(int* x) { k<5><<<1, 1>>>(x); }
} }
"""
    x = np.zeros(1, np.int32)
    for entry in (None, "k", "k<5>", "outer::inner::k<5>"):
        x[0] = 0
        run_cuda(source, [x], entry=entry, grid=1, block=1)
        assert x[0] == 5
    source_of_two = "namespace a { __global__ void f(int* x) { *x = 1; } __global__ void g(int* x) { *x = 2; } }"
    run_cuda(source_of_two, [x], entry="g", grid=1, block=1)
    assert x[0] == 2
    with pytest.raises(tc.LaunchError, match=mentions("outer::inner::k<...>")):
        run_cuda(
            source.replace("void launch", "template <int M> void launch").replace("k<5>", "k<M>"), [x], grid=1, block=1
        )


@pytest.mark.parametrize(
    ("parameters", "launch", "instance"),
    [
        ("T* x, const T v", "float *a, *d; k<<<1, 1>>>(d, 2);", "k<float>"),
        ("T* x, const T* __restrict__ v", "double* d = nullptr; k<<<grid, 32>>>(d + 1, &d[0]);", "k<double>"),
        ("T* x, T v", "std::vector<float> d(3); k<<<1, 1>>>(thrust::raw_pointer_cast(d), 1.5f);", "k<float>"),
        ("T* x, T v", "k<<<1, 1>>>(t.data_ptr<unsigned char>(), 1);", "k<unsigned char>"),
        ("T* x, T v", "void* p; k<<<1, 1>>>((float*)p, 1);", "k<float>"),
        ("T* x, T v", "k<<<1, 1>>>(static_cast<int*>(p), 1);", "k<int>"),
        ("T* x, T v", "int n = f(d * x); long long *d; k<<<1, 1>>>(d, n);", "k<long long>"),
    ],
)
def test_template_arguments_are_deduced_from_those_of_the_launch(parameters: str, launch: str, instance: str) -> None:
    source = f"template <class T> __global__ void k({parameters}) {{}}\nvoid on_the_host() {{ {launch} }}\n"
    assert any(mentions(instance).search(note) for note in compile_cuda(source).notes)


@pytest.mark.parametrize("launch", ["unknown(d); k<<<1, 1>>>(d, n);", "float** d; k<<<1, 1>>>(d, n);"])
def test_a_launch_whose_types_are_not_known_needs_an_instance(launch: str) -> None:
    source = f"template <class T> __global__ void k(T* x, T v) {{}}\nvoid on_the_host() {{ {launch} }}\n"
    with pytest.raises(tc.LaunchError, match=mentions("k<...>")):
        compile_cuda(source)


def test_the_report_says_which_instance_ran() -> None:
    source = """
#include <cstdio>
template <class T> struct Five { static constexpr T value = 5; };
template <class N, class T> __global__ void k(T* x) { *x = N::value / T(2); }
template <class Number> void launch(Number* numbers) { using N = Five<int>; k<N><<<1, 1>>>(numbers); }
int main() { launch<double>(nullptr); }
"""
    x = np.zeros(1, np.float64)
    report = run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 2.5 and any("k<Five<int>, double>" in note for note in report.notes)


def test_an_instance_that_the_launch_names_in_part_is_not_offered() -> None:
    source = """
#include <cstdio>
template <int N, class T> __global__ void k(T* x) { *x = N; }
void launch() { k<5><<<1, 1>>>(device_pointer()); }
"""
    with pytest.raises(tc.LaunchError, match=mentions("k<...>")) as caught:
        run_cuda(source, [np.zeros(1, np.float32)], grid=1, block=1)
    assert "k<5>" not in str(caught.value)
    x = np.zeros(1, np.float32)
    run_cuda(source, [x], entry="k<5, float>", grid=1, block=1)
    assert x[0] == 5


def test_older_cuda_cpp_with_register_variables_and_the_version_of_cuda() -> None:
    source = """
#include <cuda.h>
#if CUDA_VERSION >= 9000
#define shuffle(x, lane) __shfl_sync(0xffffffff, x, lane)
#else
#define shuffle __shfl
#endif
template <class Kind> struct Result;
template <class R, class... Args> struct Result<R(Args...)> { static constexpr int count = sizeof...(Args); };
__global__ void k(int* x) { register int y = threadIdx.x; x[y] = shuffle(y, 3) + Result<int(int, float)>::count; }
int main() {}
"""
    x = np.zeros(32, np.int32)
    run_cuda(source, [x], grid=1, block=32)
    assert (x == 5).all()


def test_the_log_has_the_errors_even_after_many_warnings() -> None:
    many = "\n".join(f"__device__ int f{number}() {{ int unused{number}; return 1; }}" for number in range(100))
    with pytest.raises(tc.AssemblerError, match=mentions("missing_function", "kernel.cu", 102)):
        run_cuda(f"int main() {{}}\n{many}\n__global__ void k(int* x) {{ missing_function(); }}\n", [], grid=1, block=1)


@pytest.mark.parametrize(
    "text", ["__global__ void k(int* x) { *x = 1; } int main() {", "\x01\x7f\x02", "{" * 2000, "int main() {}"]
)
def test_cut_off_binary_and_deep_texts_get_a_message(text: str) -> None:
    with pytest.raises((tc.AssemblerError, tc.LaunchError)):
        run_cuda(text, [np.zeros(1, np.int32)], grid=1, block=1)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for nvcc is a shell script")
def test_what_nvrtc_cannot_compile_goes_through_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0)
{ .reg .b64 %rd<2>; ld.param.u64 %rd1, [k_param_0]; st.global.u32 [%rd1], 7; ret; }
.visible .entry _ZN3cub11EmptyKernelEv() { ret; }
.visible .entry _ZN6thrust4scan4fillEi(.param .u32 n) { ret; }"""
    (tmp_path / "made").write_text(text)
    (tmp_path / "nvcc").write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n/bin/cp {tmp_path}/made "$2"\n')
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    source = "#include <my_library.h>\n__global__ void k(int* x) { *x = of_my_library(); }\nint main() {}\n"
    x = np.zeros(1, np.int32)
    report = run_cuda(source, [x], grid=1, block=1)
    assert x[0] == 7 and mentions("nvcc").search(report.notes[0])


def test_a_file_from_the_command_line_says_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(SCALE)
    done = CliRunner().invoke(emulate, ["scale.cu", "ones:float32:256", "256", "--grid", "4", "--block", "64"])
    assert done.exit_code == 0 and mentions("main", "helper_cuda.h").search(done.output), done.output
