"""Starting calls of tilecopy, its executors and assemblers for the argument fuzzing of tests/fuzz."""

from functools import partial

import numpy as np
import tilecopy as tc
from tilecopy import assemblers, executors
from tilecopy.kernel.builder import ScopedCopies
from tilecopy_test_helpers.fake_driver import FLOAT32, FakeTensor
from tilecopy_test_helpers.fuzz_objects import ARITHMETIC, TARGET

MODULES = (tc, executors, assemblers)
CLASSES = (ScopedCopies,)
OPERATIONS = {"Value": (lambda w: w.value, ARITHMETIC), "Mbarrier": (lambda w: w.mbar, "a[b]")}


def on_gpu():
    return FakeTensor(4096, (4,), (1,), FLOAT32)


def launchable():
    k = tc.KernelBuilder("launchable", threads=4)
    size = k.size("M")
    b, n = k.param("B", (size,), "float32"), k.scalar("n", upper=8)
    with k.if_((k.thread_id() < n) & (k.block_id() == 0)):
        k.store(b[k.thread_id()], 1.0)
    return k.build(target="sm_75")


def starting_calls(w):
    tc.ptx_text(w.plan, "copy", tc.default_registry())
    tc.HazardError("a race", kind="race", line=3, threads=(1, 2), bytes=(0, 4), cause="no barrier")
    tc.KernelBuilder("mine", threads=64)
    tc.mma_fragment("m16n8k16", "A", "float16")
    tc.tile_fragment(tc.mma_fragment("m16n8k16", "A", "float16"), (64, 64), (2, 1), atom=(16, 16), warp_axis=tc.warpid)
    w.k.block_id("x")
    w.k.cast(w.value, "int8", round="up", saturate=True)
    w.k.bulk_wait(1, read=True)
    w.k.cp_async_wait(1)
    w.k.fence_proxy_async("shared::cta")
    w.k.build(target=TARGET, grid=(w.m // 8, w.n * 2 + 1), cluster=1, min_ctas_per_sm=1)
    w.k.index(w.k.load(w.words[1]), lower=w.n, upper=w.m, clamp=True)
    w.k.size("mine", multiple_of=2, lower=0, upper=64)
    w.k.if_(w.condition)
    w.k.inline_ptx("// {0}", w.value, out=[w.k.registers(w.frag)[0:2]])
    w.k.load(w.words[0])
    w.k.address(w.words[0])
    w.k.local((8, 8), "float16", layout=w.layout, name="mine")
    w.k.mbarrier("mine", count=2)
    w.k.named_barrier(1, 32)
    w.k.param("mine", (8, 8), "float16", strides=(w.n, 1), align_bytes=16)
    w.k.range(w.n, start=0, unroll=False)
    w.k.record(w.loading)
    w.k.registers(w.frag)
    w.k.scalar("mine", "int32", multiple_of=2, lower=0, upper=64)
    w.k.shared((8, 8), "float16", layout=w.layout, name="mine", align_bytes=16)
    w.k.store(w.x[1], w.value)
    w.k.tcgen05_alloc(w.tmem, columns=32, cta_group=1)
    w.k.tcgen05_commit(w.mbar, cta_group=1)
    w.k.tcgen05_dealloc(w.tmem, columns=32, cta_group=1)
    w.k.tcgen05_ld(w.frag, w.tmem, column=4)
    w.k.thread_id("x")
    w.k.tmem((128, 8), "uint32", layout=w.tmem.layout, name="mine")
    w.k.cta.copy(w.s[:, :], w.a[:, :], variant="gmem_smem", outside="zero")
    w.k.cta.copy(w.s[:, :], w.y[w.k.block_id() * 64 : w.k.block_id() * 64 + 64, :], outside="keep")
    w.k.thread.copy_async(w.words[0:4], w.words[4:8], variant="dsmem", outside=None, mbar=w.mbar[0], remote_cta_id=1)
    w.mbar.arrive(1, cta_rank=0, relaxed=True)
    w.mbar.arrive_expect_tx(16, 1)
    w.mbar.init(1, 1)
    w.mbar.wait(0, 1, cluster=True)
    tc.cuda_header([w.plan.cuda("load_tile")])
    tc.cost(w.plan, tc.default_registry())
    tc.compare(w.s[0:4, :], w.a[0:4, :], scope=tc.cta(64), targets="sm_90a")
    launchable().save("saved")
    tc.load_kernel(launchable().save("saved"))
    w.kernel.check_bounds((1, 1, 1), {"n": 3})
    tc.KernelBuilder("empty", threads=1).build(target=TARGET).cubin("nvjitlink")
    tc.KernelBuilder("empty", threads=1).build(target=TARGET).resources("nvjitlink")
    w.kernel.launch_grid(1, {"n": 3})
    w.kernel.values_at({"n": 3})
    w.kernel.source_location(1)
    launchable().prepare(np.zeros(4, np.float32), 2, grid=1, stream=None, device=None, executor="emulator")
    launchable().__call__(np.zeros(4, np.float32), 2, grid=1, stream=None, device=None, executor="emulator")
    launchable().launch_by_address(on_gpu(), 2, grid=1, device=None, executor="stand-in")
    launchable().launch_by_address(on_gpu(), 2, grid=1, device=None, executor="stand-in")([8192], None)
    tc.Value(w.value.dtype, "neg", (w.value,))
    w.value.max(w.value)
    w.value.min(w.value)
    executors.HostArguments.of(launchable(), (np.zeros(4, np.float32), 2), 1)
    executors.common_stream("row", {"A": partial(int, 5)})
    executors.same_tensors([])
    executors.reader_of(np.ndarray)
    executors.framework_of(np.ndarray)
    executors.is_masked(np.zeros(3))
    executors.array_view("row, A", np.zeros(32, np.float32), lambda address: 0)
    executors.choose_executor("emulator", w.kernel)
    executors.get_executor("emulator")
    executors.unavailable_reason("emulator")
    executors.stream_handle(0)
    assemblers.assemble(w.kernel.ptx, TARGET, None, timeout_s=100.0)
    assemblers.how_to_install("nvjitlink")
    assemblers.resources_of(w.kernel.ptx, TARGET, "nvjitlink")
    assemblers.assembler_version("nvjitlink")


UNCALLED = {
    "it takes no arguments": "BuiltKernel.explain KernelBuilder.bulk_commit KernelBuilder.cluster_rank KernelBuilder.cluster_sync KernelBuilder.cp_async_commit KernelBuilder.cta_sync KernelBuilder.elect KernelBuilder.fence_mbarrier_init KernelBuilder.lane_id KernelBuilder.tcgen05_fence_after KernelBuilder.tcgen05_fence_before KernelBuilder.tcgen05_wait_ld KernelBuilder.warp_id KernelBuilder.warp_sync Mbarrier.as_region Value.parts Value.places available_assemblers capturing_framework compiling executors",
    "the builder makes it": "BuiltKernel Mbarrier ScopedCopies IndexAssertion",
    "an assembler makes it": "Resources",
    "costs makes it": "Comparison Cost",
    "launches make it": "ArrayView HostArguments HostArguments.pack_parameters HostArray",
    "a protocol": "Executor",
    "for rows of a page": "html_table",
}
