"""What kernels of CUDA C++ call of the driver: ``malloc``, ``new``, ``assert``; and calls through pointers to functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilecopy import HazardError
from tilecopy_emulator import Report, run_cuda
from tilecopy_test_helpers.mentions import mentions

pytest.importorskip("cuda.bindings.nvrtc")


def run(source: str, *arguments: Any, block: int = 32, grid: int = 1, entry: str | None = None) -> Report:
    return run_cuda(source, list(arguments), entry=entry, grid=grid, block=block)


def body(text: str, parameters: str = "int* x") -> str:
    return f"__global__ void k({parameters}) {{\n{text}\n}}"


def test_blocks_of_malloc_are_private_memory() -> None:
    text = """int t = threadIdx.x;
    int* p = (int*)malloc(4 * (t + 1));
    for (int i = 0; i <= t; i++) p[i] = i;
    x[blockIdx.x * 32 + t] = p[t] + p[0];
    free(p);"""
    x = np.zeros(64, np.int32)
    report = run(body(text), x, grid=2)
    assert x.tolist() == [*range(32)] * 2 and report.notes == ()


def test_new_and_delete_call_constructors_and_destructors() -> None:
    text = """
    struct Node { int value; Node* next; __device__ Node(int v, Node* n) : value(v), next(n) {} };
    __global__ void k(int* x) {
      Node* list = nullptr;
      for (int i = 0; i < 5; i++) list = new Node(i, list);
      int sum = 0;
      while (list) { Node* n = list; sum += n->value; list = n->next; delete n; }
      *x = sum;
    }"""
    x = np.zeros(1, np.int32)
    assert run(text, x, block=1).notes == () and x[0] == 10


def test_what_is_not_freed_is_a_note() -> None:
    report = run(body("int* p = new int[10]; p[0] = *x; *x = p[0];"), np.zeros(1, np.int32), block=1)
    assert mentions(1, 40).search(report.notes[0])


@pytest.mark.parametrize(
    ("text", "kind", "line"),
    [
        ("int* p = (int*)malloc(40);\np[10] = 1; *x = p[0];", "bounds", 3),
        ("int* p = new int[4];\n*x = p[-1];", "bounds", 3),
        ("int* p = (int*)malloc(4); *p = 1;\nfree(p);\n*x = *p;", "lifetime", 4),
        ("int* p = (int*)malloc(4);\nfree(p);\nfree(p);", "lifetime", 4),
        ("int* p = (int*)malloc(4);\nfree(p + 1);", "lifetime", 3),
        ("free(x);", "lifetime", 2),
        ("int* p = (int*)malloc(64 << 20);\n*p = 1;", "bounds", 3),
    ],
)
def test_faults_of_the_heap(text: str, kind: str, line: int) -> None:
    with pytest.raises(HazardError, match=mentions(f"kernel.cu:{line}")) as caught:
        run(body(text), np.zeros(1, np.int32), block=1)
    assert caught.value.kind == kind


def test_threads_that_share_a_block_of_the_heap_can_race() -> None:
    text = """__shared__ int* p;
    if (threadIdx.x == 0) p = new int[64];
    __syncthreads();
    p[threadIdx.x] = threadIdx.x;
    BARRIER
    x[threadIdx.x] = p[threadIdx.x ^ 32];
    __syncthreads();
    if (threadIdx.x == 0) delete[] p;"""
    x = np.zeros(64, np.int32)
    run(body(text.replace("BARRIER", "__syncthreads();")), x, block=64)
    assert x.tolist() == [i ^ 32 for i in range(64)]
    with pytest.raises(HazardError) as caught:
        run(body(text.replace("BARRIER", "")), x, block=64)
    assert caught.value.kind == "race"


def test_a_failed_assertion_is_a_hazard_with_its_text_and_line() -> None:
    source = "#include <cassert>\n" + body("int t = threadIdx.x;\nassert(x[t] < 30);\nx[t] = 1;")
    with pytest.raises(HazardError, match=mentions("kernel.cu:4", "x[t] < 30", 30)) as caught:
        run(source, np.arange(32, dtype=np.int32))
    assert caught.value.kind == "trap"
    run(source, np.zeros(32, np.int32))


POINTERS = """
typedef int (*Operation)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int subtract(int a, int b) { return a - b; }
__device__ int twice(int a, int b);
__device__ int unlike(int a) { return a; }
__device__ Operation table[3] = {add, subtract, twice};
__device__ int twice(int a, int b) { return 2 * a + b; }
__global__ void k(int* x, int n) {
  int t = threadIdx.x;
  Operation chosen = n > 2 ? add : subtract;
  x[t] = table[t % n](x[t], 1) + 100 * chosen(t, 1);
}
"""


@pytest.mark.parametrize("count", [2, 3])
def test_calls_through_pointers_to_functions(count: int) -> None:
    x = np.arange(32, dtype=np.int32)
    operations = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: 2 * a + b]
    expected = [operations[t % count](t, 1) + 100 * (t + 1 if count > 2 else t - 1) for t in range(32)]
    run(POINTERS, x, count)
    assert x.tolist() == expected


@pytest.mark.parametrize("address", [0, 5])
def test_a_call_of_what_is_no_function_is_a_hazard(address: int) -> None:
    source = POINTERS + "__global__ void bad(int* x, Operation f) {\n  *x = f(1, 2);\n}\n"
    with pytest.raises(HazardError, match=mentions("kernel.cu:15")) as caught:
        run(source, np.zeros(1, np.int32), address, block=1, entry="bad")
    assert caught.value.kind == "bounds"


def test_virtual_functions_of_objects_that_the_kernel_made() -> None:
    source = """
    struct Shape { __device__ virtual int area(int n) const { return n; } };
    struct Square : Shape { __device__ int area(int n) const override { return n * n; } };
    __global__ void k(int* x) { Shape a; Square b; Shape* p = threadIdx.x & 1 ? &b : &a; x[threadIdx.x] = p->area(threadIdx.x); }"""
    x = np.zeros(32, np.int32)
    run(source, x)
    assert x.tolist() == [t * t if t & 1 else t for t in range(32)]


def test_recursion_through_a_pointer_is_refused() -> None:
    source = """
    typedef int (*F)(int, long);
    __device__ F next;
    __device__ __noinline__ int down(int n, long f) { return n ? next(n - 1, f) + 1 : 0; }
    __global__ void k(int* x) { next = down; *x = next(3, 0); }"""
    x = np.zeros(1, np.int32)
    with pytest.raises((NotImplementedError, HazardError)):
        run(source, x, block=1)
