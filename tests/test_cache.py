"""The disk cache of built modules, alone and under the CUDA executor on a stand-in for the driver; on a GPU where there is one."""

from __future__ import annotations

import builtins
import errno
import hashlib
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
import tilecopy as tc
from click.testing import CliRunner, Result
from fake_driver import FakeDriver, FakeTensor, machine_code
from tilecopy_cli.commands import tilecopy as command
from tilecopy_cuda.cache import CacheWarning, ModuleCache, cache_settings, module_key
from tilecopy_cuda.cuda import CudaExecutor
from tilecopy_testkit import oracle
from tilecopy_testkit.programs import round_trip

A0, B0 = 0x7F0000001000, 0x7F0000002000
KEY = module_key("text", "sm_90", driver="13000", assembler="driver 13000")
CODE = b"\x7fELF" + bytes(range(256)) * 20


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"TILECOPY_CACHE_DIR": str(tmp_path / "cache")}


@pytest.fixture
def cache(environ: dict[str, str]) -> ModuleCache:
    return ModuleCache(environ)


@pytest.fixture
def kernel() -> tc.BuiltKernel:
    return round_trip((256, 64), (128, 64), "float16", target="sm_90")


def use(cache: ModuleCache, key: bytes = KEY) -> None:
    """What launches do, several times, where nothing can be kept."""
    for _ in range(3):
        assert cache.get(key) is None
        cache.put(key, CODE)


def entries(environ: dict[str, str]) -> list[Path]:
    return [path for path in Path(environ["TILECOPY_CACHE_DIR"]).rglob("*") if path.is_file()]


# ------------------------------------------------------------------------------------------------------ the cache alone


def test_what_was_put_is_there_for_the_next_process(cache: ModuleCache, environ: dict[str, str]) -> None:
    assert cache.on and cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE and ModuleCache(environ).get(KEY) == CODE
    cache.discard(KEY)
    assert cache.get(KEY) is None and not entries(environ)
    cache.discard(KEY)


def test_a_key_has_everything_that_machine_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"ptx": "text", "target": "sm_90", "driver": "13000", "assembler": "driver 13000"}
    others = {"ptx": "text ", "target": "sm_90a", "driver": "13010", "assembler": "nvjitlink 13.0"}
    keys = {module_key(**given), *(module_key(**{**given, name: other}) for name, other in others.items())}
    keys.add(module_key("textsm_90", "", driver="13000", assembler="driver 13000"))
    monkeypatch.setattr("tilecopy_cuda.cache.__version__", "99.0")
    keys.add(module_key(**given))
    assert len(keys) == 7 and module_key(**given) in keys


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:32],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:-1] + bytes([data[-1] ^ 128]),
        lambda data: data[:2000] + bytes(8) + data[2008:],
        lambda data: CODE,
        lambda data: hashlib.sha256(CODE).digest() + CODE,
    ],
)
def test_a_damaged_file_is_dropped_and_made_anew(
    cache: ModuleCache, environ: dict[str, str], damage: Callable[[bytes], bytes]
) -> None:
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    file.write_bytes(damage(file.read_bytes()))
    assert cache.get(KEY) is None and not entries(environ)
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


def test_a_file_under_the_name_of_another_is_not_taken_for_it(cache: ModuleCache, environ: dict[str, str]) -> None:
    other = module_key("other", "sm_90", driver="13000", assembler="driver 13000")
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    cache.put(other, CODE[::-1])
    (second,) = (path for path in entries(environ) if path != file)
    second.write_bytes(file.read_bytes())
    assert cache.get(other) is None and cache.get(KEY) == CODE


def test_the_least_recently_used_go_past_the_limit(environ: dict[str, str]) -> None:
    environ["TILECOPY_CACHE_LIMIT_MIB"] = "1"
    cache, code = ModuleCache(environ), bytes(100_000)
    keys = [module_key(str(n), "sm_90", driver="", assembler="") for n in range(30)]
    for key in keys:
        cache.put(key, code)
        assert cache.get(keys[0]) == code
        assert sum(path.stat().st_size for path in entries(environ)) <= 1 << 20
    kept = [key for key in keys if cache.get(key)]
    assert kept == [keys[0], *keys[-9:]]
    info = cache.info()
    assert (info.entries, info.bytes, info.limit_bytes) == (10, 10 * 100_032, 1 << 20)


def test_one_that_is_larger_than_the_limit_is_not_kept(environ: dict[str, str]) -> None:
    environ["TILECOPY_CACHE_LIMIT_MIB"] = "1"
    cache = ModuleCache(environ)
    cache.put(KEY, bytes(2 << 20))
    assert cache.get(KEY) is None and not entries(environ)


def test_the_environment_is_followed(cache: ModuleCache, environ: dict[str, str], tmp_path: Path) -> None:
    cache.put(KEY, CODE)
    environ["TILECOPY_CACHE"] = "0"
    assert cache.get(KEY) is None and cache.info().why_off == "TILECOPY_CACHE=0"
    cache.put(KEY, CODE[::-1])
    environ["TILECOPY_CACHE"] = "1"
    assert cache.get(KEY) == CODE
    environ["TILECOPY_CACHE_DIR"] = str(tmp_path / "another")
    assert cache.get(KEY) is None and cache.on


def test_turned_off_it_makes_no_folder_and_imports_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from tilecopy_cuda.cache import ModuleCache; cache = ModuleCache(); cache.put(b'k', b'v'); "
        "assert cache.get(b'k') is None and not cache.on; assert 'cuda.core' not in sys.modules, 'cuda.core'"
    )
    environ = {**os.environ, "TILECOPY_CACHE": "0", "TILECOPY_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environ)
    assert not (tmp_path / "cache").exists()


def test_the_platforms_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache_settings({}).folder == tmp_path / "tilecopy" / "modules"
    assert cache_settings({}).folder is not None and cache_settings({}).limit_bytes == 256 << 20


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e3", " 5", "9" * 12, "²"])
def test_a_limit_that_is_none_is_told_and_breaks_nothing(environ: dict[str, str], value: str) -> None:
    cache = ModuleCache({**environ, "TILECOPY_CACHE_LIMIT_MIB": value})
    with pytest.warns(CacheWarning, match=f"is off: TILECOPY_CACHE_LIMIT_MIB='{value}' is not a positive") as caught:
        use(cache)
    assert len(caught) == 1 and not cache.on and "LIMIT_MIB" in cache.info().why_off


# ------------------------------------------------------------------------------------------------------ trouble with files


def refuse(error: OSError) -> Callable[..., Any]:
    def raiser(*arguments: object, **options: object) -> Any:
        raise error

    return raiser


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES])
def test_what_cannot_be_written_is_one_warning(
    cache: ModuleCache, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    cache.put(KEY, CODE)
    other = module_key("other", "sm_90", driver="", assembler="")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse(OSError(number, os.strerror(number))))
        with pytest.warns(CacheWarning, match=f"cannot be written: .*{os.strerror(number)}") as caught:
            use(cache, other)
    assert len(caught) == 1 and "\n" not in str(caught[0].message)
    assert caught[0].filename == __file__, "the caller is named"
    assert len(entries(environ)) == 1 and cache.get(KEY) == CODE and cache.get(other) is None


def test_what_cannot_be_read_is_one_warning(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    file.unlink()
    file.mkdir()
    with pytest.warns(CacheWarning, match="cannot be read") as caught:
        use(cache)
    assert len(caught) == 1


@pytest.mark.parametrize("what", ["a file", "below a file", "nowhere"])
def test_a_folder_that_cannot_be_is_one_warning(what: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    where = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "x", "nowhere": Path("/proc/none")}[what]
    cache = ModuleCache({"TILECOPY_CACHE_DIR": str(where)})
    with pytest.warns(CacheWarning, match="cannot be used") as caught:
        use(cache)
    assert len(caught) == 1 and str(where) in cache.info().why_off and not cache.on


def test_a_folder_where_others_may_write_is_not_trusted(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    folder = Path(environ["TILECOPY_CACHE_DIR"], "modules")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    again = ModuleCache(environ)
    with pytest.warns(CacheWarning, match="everybody may write there"):
        assert again.get(KEY) is None
    with pytest.raises(tc.CacheError, match="everybody may write there"):
        ModuleCache({**environ, "TILECOPY_CACHE": "0"}).clear()
    assert len(entries(environ)) == 1


GIVES_AWAY = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="giving away needs root")


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_is_not_trusted(mode: int, cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    Path(environ["TILECOPY_CACHE_DIR"], "modules").chmod(mode)
    with pytest.warns(CacheWarning, match="may write there"):
        assert ModuleCache(environ).get(KEY) is None


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o770, 0o702])
@pytest.mark.parametrize("reached", [False, True])
def test_what_others_may_write_in_a_folder_is_not_trusted_where_they_get_at_it(
    reached: bool, mode: int, depth: int, cache: ModuleCache, environ: dict[str, str]
) -> None:
    cache.put(KEY, CODE)
    Path(environ["TILECOPY_CACHE_DIR"], "modules").chmod(0o755 if reached else 0o700)
    (file,) = entries(environ)
    (file, *file.parents)[depth].chmod(mode)
    again = ModuleCache(environ)
    if not reached:  # as under a umask of 002
        assert again.get(KEY) == CODE
        return
    with pytest.warns(CacheWarning, match="may write there") as caught:
        assert again.get(KEY) is None and again.get(KEY) is None
    assert len(caught) == 1


@GIVES_AWAY
def test_another_users_entry_is_not_trusted(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    os.chown(file, 12345, -1)
    with pytest.warns(CacheWarning, match=r"belongs to another user \(uid 12345\)"):
        assert ModuleCache(environ).get(KEY) is None


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_an_entry_that_is_no_file_is_not_opened(make: Any, cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    file.unlink()
    make(file)
    with pytest.warns(CacheWarning, match="no regular file"):
        assert cache.get(KEY) is None
    cache.put(KEY, CODE)
    assert cache.get(KEY) == CODE


@GIVES_AWAY
def test_another_users_folder_is_not_trusted(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    os.chown(Path(environ["TILECOPY_CACHE_DIR"], "modules"), 12345, -1)
    with pytest.warns(CacheWarning, match=r"belongs to another user \(uid 12345\)"):
        assert ModuleCache(environ).get(KEY) is None


@pytest.mark.parametrize(("name", "said"), [("cuda.core", "cuda.core .* is not installed"), ("platformdirs", "platf")])
def test_without_the_libraries_there_is_no_cache_and_no_warning(
    name: str, said: str, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(module: str, *arguments: Any, **options: Any) -> Any:
        if module == name or module.startswith(f"{name}."):
            raise ImportError(f"No module named {name!r}")
        return real(module, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    cache = ModuleCache({} if name == "platformdirs" else environ)
    cache.put(KEY, CODE)
    assert cache.get(KEY) is None and not cache.on
    why = cache.info().why_off
    assert name.partition(".")[0] in why and "pip install 'plugins/cuda[cache]'" in why
    Path(environ["TILECOPY_CACHE_DIR"], "modules").mkdir(parents=True, exist_ok=True)
    with pytest.raises(tc.CacheError, match="pip install" if name == "platformdirs" else "cannot be cleared"):
        cache.clear()


# ------------------------------------------------------------------------------------------------------ many processes


def code_of(key: bytes) -> bytes:
    return hashlib.sha512(key).digest() * (100 + key[0])


def work(number: int, folder: str, turns: int) -> int:
    """Put and get what all share and what is this process's own; process 0 clears meanwhile. How often something was there."""
    warnings.simplefilter("error")
    cache, found = ModuleCache({"TILECOPY_CACHE_DIR": folder, "TILECOPY_CACHE_LIMIT_MIB": "1"}), 0
    for turn in range(turns):
        for name in (f"shared {turn % 20}", f"own {number} {turn % 10}"):
            key = module_key(name, "sm_90", driver="", assembler="")
            code = cache.get(key)
            assert code in (None, code_of(key)), name
            found += code is not None
            if code is None or turn % 3 == 0:
                cache.put(key, code_of(key))
        if number == 0 and turn % 10 == 9:
            cache.clear()
    return found


def test_many_processes_write_read_and_clear_at_once(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = environ["TILECOPY_CACHE_DIR"]
    with multiprocessing.get_context("spawn").Pool(5) as pool:
        found = pool.starmap(work, [(number, folder, 60) for number in range(5)])
    assert all(found[1:]), "process 0 clears what it wrote before it asks again: alone at first, it finds nothing"
    assert not [path for path in entries(environ) if path.parent.name == "tmp"], "no half-written file is left"
    assert sum(path.stat().st_size for path in entries(environ)) <= 2 << 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache = ModuleCache({**environ, "TILECOPY_CACHE_LIMIT_MIB": "1"})
        cache.put(KEY, CODE)
        assert cache.get(KEY) == CODE


def test_a_writer_that_was_killed_leaves_nothing_that_is_read(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    (file,) = entries(environ)
    half = file.parents[2] / "tmp" / "entry-half"
    half.write_bytes(file.read_bytes()[:100])
    again = ModuleCache(environ)
    assert again.get(KEY) == CODE and again.info().entries == 1
    os.utime(half, (0, 0))
    again.clear()
    assert not entries(environ), "old remains are swept"


# -------------------------------------------------------------------------------------------- under the CUDA executor


def launched(kernel: tc.BuiltKernel, cache: ModuleCache | None, **state: Any) -> FakeDriver:
    """The driver of a new process that launches a kernel."""
    fake = FakeDriver(sizes=(8, 8))
    for name, value in state.items():
        setattr(fake, name, value)
    CudaExecutor(fake, cache).launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert len(fake.launches) == 1
    return fake


def test_the_second_process_loads_what_the_first_one_made(kernel: tc.BuiltKernel, environ: dict[str, str]) -> None:
    made = machine_code(kernel.ptx.encode())
    for process in range(3):
        fake = launched(kernel, ModuleCache(environ))
        assert fake.images == [made], "what was kept, or linked now; the text is not loaded"
        assert fake.calls["cuLinkCreate"] == fake.calls["cuLinkDestroy"] == (process == 0)
    assert len(entries(environ)) == 1


def test_without_a_cache_the_text_is_loaded_as_it_is(kernel: tc.BuiltKernel, environ: dict[str, str]) -> None:
    for cache in (None, ModuleCache({**environ, "TILECOPY_CACHE": "0"})):
        fake = launched(kernel, cache)
        assert fake.images == [kernel.ptx.encode() + b"\0"] and not fake.calls["cuLinkCreate"]
    assert not entries(environ)


def test_another_driver_or_text_is_another_entry(kernel: tc.BuiltKernel, environ: dict[str, str]) -> None:
    other = attrs.evolve(kernel, ptx=kernel.ptx + "\n")
    for number, (which, version) in enumerate([(kernel, 13000), (kernel, 13010), (other, 13000)], 1):
        for linked in (1, 0):
            assert launched(which, ModuleCache(environ), version=version).calls["cuLinkCreate"] == linked
        assert len(entries(environ)) == number


def test_the_same_text_built_twice_in_a_process_loads_once(environ: dict[str, str]) -> None:
    fake = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake, ModuleCache(environ))
    for _ in range(3):
        built = round_trip((256, 64), (128, 64), "float16", target="sm_90")
        cuda.launch(built, (FakeTensor(A0), FakeTensor(B0)))
    assert (fake.calls["cuModuleLoadDataEx"], fake.calls["cuLinkCreate"], len(fake.launches)) == (1, 1, 3)


def test_one_text_with_another_amount_of_shared_memory_is_another_function(kernel: tc.BuiltKernel) -> None:
    fake = FakeDriver(sizes=(8, 8))
    cuda = CudaExecutor(fake)
    for size_bytes in (100_000, 200_000):
        more = attrs.evolve(kernel, dynamic_shared=True, shared_bytes=size_bytes)
        cuda.launch(more, (FakeTensor(A0), FakeTensor(B0)))
    assert fake.calls["cuFuncSetAttribute"] == 2


def test_a_damaged_entry_is_linked_again_and_never_loaded(kernel: tc.BuiltKernel, environ: dict[str, str]) -> None:
    launched(kernel, ModuleCache(environ))
    (file,) = entries(environ)
    whole = file.read_bytes()
    file.write_bytes(whole[:-3] + b"bad")
    fake = launched(kernel, ModuleCache(environ))
    assert fake.images == [machine_code(kernel.ptx.encode())] and fake.calls["cuLinkCreate"] == 1
    (file,) = entries(environ)
    assert file.read_bytes() == whole


class Choosy(FakeDriver):
    """Refuses machine code, as a driver would that has another idea of the device."""

    def cuModuleLoadDataEx(self, image: bytes, *options: Any) -> Any:
        from cuda.bindings import driver as real

        said = super().cuModuleLoadDataEx(image, *options)
        return (real.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU, None) if image.startswith(b"\x7fELF") else said


def test_machine_code_that_the_driver_refuses_is_dropped_and_the_text_loaded(
    kernel: tc.BuiltKernel, environ: dict[str, str]
) -> None:
    launched(kernel, ModuleCache(environ))
    fake = Choosy(sizes=(8, 8))
    CudaExecutor(fake, ModuleCache(environ)).launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert len(fake.launches) == 1 and fake.images[-1] == kernel.ptx.encode() + b"\0" and not entries(environ)


@pytest.mark.parametrize("call", ["cuLinkCreate", "cuLinkAddData", "cuLinkComplete"])
def test_a_linker_that_fails_breaks_no_launch(kernel: tc.BuiltKernel, environ: dict[str, str], call: str) -> None:
    fake = launched(kernel, ModuleCache(environ), fail={call: 801})
    assert fake.images == [kernel.ptx.encode() + b"\0"] and not entries(environ)
    assert fake.calls["cuLinkDestroy"] == (call != "cuLinkCreate")


def test_text_that_is_refused_is_an_error_with_the_cache_too(kernel: tc.BuiltKernel, environ: dict[str, str]) -> None:
    with pytest.raises(tc.LaunchError, match="the driver refuses the PTX of kernel round_trip: CUDA_ERROR_INVALID_PTX"):
        launched(kernel, ModuleCache(environ), fail={"cuLinkAddData": 218, "cuModuleLoadDataEx": 218})
    with pytest.raises(tc.LaunchError, match=r"LAUNCH_FAILED \(719\).*has ended the CUDA context"):
        launched(kernel, ModuleCache(environ), fail={"cuLinkAddData": 719, "cuModuleLoadDataEx": 719})
    assert not entries(environ)


class NoCompiler(FakeDriver):
    """Has machine code loaded and compiles no text."""

    code = 221

    def cuModuleLoadDataEx(self, image: bytes, *options: Any) -> Any:
        from cuda.bindings import driver as real

        said = super().cuModuleLoadDataEx(image, *options)
        return said if image.startswith(b"\x7fELF") else (real.CUresult(self.code), None)


@pytest.mark.parametrize("code", [221, 222])
def test_nvjitlink_assembles_where_the_driver_cannot(
    code: int, kernel: tc.BuiltKernel, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    made = kernel.cubin("nvjitlink")
    for cache in (None, ModuleCache(environ), ModuleCache(environ)):
        fake = NoCompiler(sizes=(8, 8))
        fake.code, fake.fail = code, {"cuLinkAddData": code}
        CudaExecutor(fake, cache).launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
        assert fake.images[-1] == made and len(fake.launches) == 1
    assert len(entries(environ)) == 1
    monkeypatch.setattr("tilecopy_cuda.modules.assemble", refuse(OSError("assembled again")))
    fake = NoCompiler(sizes=(8, 8))
    fake.fail = {"cuLinkAddData": 221}
    CudaExecutor(fake, ModuleCache(environ)).launch(kernel, (FakeTensor(A0), FakeTensor(B0)))
    assert fake.images[-1] == made


def test_without_nvjitlink_the_message_says_what_to_install(
    kernel: tc.BuiltKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvjitlink", None)
    monkeypatch.delattr("cuda.bindings.nvjitlink", raising=False)
    with pytest.raises(
        tc.LaunchError, match=r"UNSUPPORTED_PTX_VERSION \(222\)\n.*pip install cuda-python nvidia-nvjitlink"
    ):
        launched(kernel, None, fail={"cuModuleLoadDataEx": 222})


def test_a_kernel_of_an_older_target_is_assembled_for_the_device(environ: dict[str, str]) -> None:
    pytest.importorskip("cuda.bindings.nvjitlink")
    older = round_trip((256, 64), (128, 64), "float16", target="sm_80")
    fake = NoCompiler(sizes=(8, 8))
    fake.fail = {"cuLinkAddData": 221}
    CudaExecutor(fake, None).launch(older, (FakeTensor(A0), FakeTensor(B0)))
    assert fake.images[-1] == tc.assemblers.assemble(older.ptx, "sm_90", "nvjitlink")


# ------------------------------------------------------------------------------------------------------- command line


def here(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(command, list(arguments), env={"TILECOPY_CACHE": "1", **environ})


def test_info_and_clear(cache: ModuleCache, environ: dict[str, str]) -> None:
    nothing = json.loads(here("cache", "info", "--json", **environ).stdout)
    assert nothing == {
        "on": True,
        "why_off": "",
        "folder": str(Path(environ["TILECOPY_CACHE_DIR"], "modules")),
        "entries": 0,
        "bytes": 0,
        "limit_bytes": 256 << 20,
    }
    cache.put(KEY, CODE)
    found = json.loads(here("cache", "info", "--json", **environ).stdout)
    assert (found["entries"], found["bytes"]) == (1, len(CODE) + 32)
    assert "entries  1" in here("cache", "info", **environ).stdout
    assert json.loads(here("cache", "clear", "--json", **environ).stdout) == {
        "folder": found["folder"],
        "removed_entries": 1,
        "removed_bytes": len(CODE) + 32,
    }
    assert not entries(environ) and here("cache", "clear", **environ).stdout.startswith("removed 0 entries")


def test_info_says_why_it_is_off_and_clear_works_all_the_same(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    environ["TILECOPY_CACHE"] = "0"
    assert "off: TILECOPY_CACHE=0" in here("cache", "info", **environ).stdout
    assert here("cache", "clear", **environ).exit_code == 0 and not entries(environ)


def test_clear_touches_nothing_but_modules(cache: ModuleCache, environ: dict[str, str]) -> None:
    cache.put(KEY, CODE)
    mine = Path(environ["TILECOPY_CACHE_DIR"], "entries", "ab", "mine")
    mine.parent.mkdir(parents=True)
    mine.write_text("not a module")
    assert here("cache", "clear", **environ).exit_code == 0
    assert entries(environ) == [mine]


def test_what_is_asked_wrongly_or_cannot_be_done(environ: dict[str, str], tmp_path: Path) -> None:
    wrong = here("cache", "cleer", **environ)
    assert wrong.exit_code == 2 and "clear" in wrong.stderr and not wrong.stdout
    nothing = here("cache", **environ)
    assert nothing.exit_code == 2 and "Usage: tilecopy cache" in nothing.stderr and not nothing.stdout
    failed = here("cache", "clear", "--json", TILECOPY_CACHE_DIR=str(tmp_path), TILECOPY_CACHE_LIMIT_MIB="x")
    assert failed.exit_code == 1 and json.loads(failed.stdout)["error"]["type"] == "CacheError"


def test_doctor_tells_of_it(environ: dict[str, str]) -> None:
    def row(**more: str) -> dict[str, Any]:
        rows = json.loads(here("doctor", "--json", **environ, **more).stdout)
        return next(row for row in rows if row["what"] == "module cache")

    assert row() == {
        "what": "module cache",
        "found": True,
        "detail": f"{environ['TILECOPY_CACHE_DIR']}/modules, 0 entries, 0.0 of 256 MiB",
    }
    off = row(TILECOPY_CACHE_LIMIT_MIB="no")
    assert not off["found"] and "LIMIT_MIB" in off["detail"]


# -------------------------------------------------------------------------------------------------------------- a GPU


def test_on_the_gpu_a_second_process_loads_what_the_first_one_kept(gpu: str, environ: dict[str, str]) -> None:
    kernel = round_trip((256, 128), (128, 64), "float32", target=gpu)
    source, kept = oracle.random_array((256, 128), np.float32), set[bytes]()
    for _ in range(2):
        result = np.zeros_like(source)
        CudaExecutor(cache=ModuleCache(environ)).launch(kernel, (source, result))
        assert oracle.same_bytes(source, result)
        kept |= {path.read_bytes() for path in entries(environ)}
    assert len(kept) == 1, "the driver's linker gave machine code, and it was not made twice"


def test_on_the_gpu_a_damaged_entry_is_made_anew(gpu: str, environ: dict[str, str]) -> None:
    kernel = round_trip((256, 128), (128, 64), "float32", target=gpu)
    source = oracle.random_array((256, 128), np.float32)
    for damage in (lambda data: data, lambda data: data[: len(data) // 2], lambda data: data[:-9] + b"\xff" * 9):
        for path in entries(environ):
            path.write_bytes(damage(path.read_bytes()))
        result = np.zeros_like(source)
        CudaExecutor(cache=ModuleCache(environ)).launch(kernel, (source, result))
        assert oracle.same_bytes(source, result)
    assert len(entries(environ)) == 1


def test_on_the_gpu_a_capture_loads_from_the_cache(gpu: str, environ: dict[str, str]) -> None:
    torch = pytest.importorskip("torch")
    kernel = round_trip((256, 64), (128, 64), "float32", target=gpu)
    for _ in range(2):
        cuda = CudaExecutor(cache=ModuleCache(environ))
        a, b = torch.zeros(256, 64, device="cuda"), torch.ones(256, 64, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            cuda.launch(kernel, (a, b), stream=torch.cuda.current_stream())
        a.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(a, b)
    assert len(entries(environ)) == 1
