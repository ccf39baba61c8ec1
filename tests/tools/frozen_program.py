"""A program for PyInstaller: one copy through shared memory, on the emulator (`nox -s frozen`)."""

import numpy as np
import tilecopy as tc

k = tc.KernelBuilder("roundtrip", threads=128)
A, B = k.param("A", (256, 64), "float16"), k.param("B", (256, 64), "float16")
tile = k.shared((128, 64), "float16", name="tile")
row = k.block_id("x") * 128
k.cta.copy(tile[:, :], A[row : row + 128, :])
k.cta_sync()
k.cta.copy(B[row : row + 128, :], tile[:, :])
kernel = k.build(target="sm_90a", grid=(2,))
a = np.random.default_rng(0).random((256, 64)).astype("float16")
b = np.zeros_like(a)
kernel(a, b)
print("equal:", np.array_equal(a, b), kernel.plans[0].variant)
raise SystemExit(not np.array_equal(a, b))
