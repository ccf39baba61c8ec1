"""Wrappers of private torch functions, with the torch versions that have each function. This module imports torch.

If a release of torch changes a name, only this module needs a change.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import torch
from torch.autograd import forward_ad

_dispatch_modes = torch._C._len_torch_dispatch_stack  # 2.4 to 2.13
_is_tracing = torch._C._is_tracing  # 2.4 to 2.13
transforms_are_active = torch._C._are_functorch_transforms_active  # 2.4 to 2.13
"""Return True if a transform of ``torch.func`` is active."""
TransformType = torch._C._functorch.TransformType  # 2.4 to 2.13
is_wrapped_by_transform = torch._C._functorch.is_functorch_wrapped_tensor  # 2.4 to 2.13
"""Return True if a tensor is a wrapper of a transform of ``torch.func``."""


def forward_mode_is_active() -> bool:
    """Return True if forward-mode differentiation is active (``_current_level``, in torch 2.4 to 2.13)."""
    return bool(forward_ad._current_level >= 0)


def active_transforms() -> list[Any]:
    """Return the types of the active transforms of ``torch.func`` (``get_interpreter_stack``, in torch 2.4 to 2.13)."""
    return [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]


def has_tangent(tensor: torch.Tensor) -> bool:
    """Return True if a tensor has a tangent of forward-mode differentiation."""
    return forward_mode_is_active() and forward_ad.unpack_dual(tensor).tangent is not None


def sees_calls() -> bool:
    """Return True if ``torch.jit.trace``, a transform of ``torch.func`` or forward-mode differentiation is active."""
    return bool(_is_tracing() or transforms_are_active() or forward_ad._current_level >= 0)


def must_see(tensor: torch.Tensor) -> bool:
    """Return True if torch records, transforms or traces calls with this tensor, so that torch must dispatch them."""
    return _dispatch_modes() > 0 or sees_calls() or (tensor.requires_grad and torch.is_grad_enabled())


def needs_torch_dispatch(tensor: torch.Tensor) -> bool:
    """Return True if torch must dispatch calls or a tensor has no memory (``_is_zerotensor``, in torch 2.4 to 2.13)."""
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    return not plain or must_see(tensor) or tensor.is_meta or tensor._is_zerotensor()


# ------------------------------------------------------------------------------------------------- torch.distributed


def group_by_name(name: str) -> Any:
    """Return the process group that has this name (``_resolve_process_group``, in torch 2.4 to 2.13)."""
    return torch.distributed.distributed_c10d._resolve_process_group(name)


def store_of(group: Any) -> Any:
    """Return the key-value store of a process group (``_get_process_group_store``, in torch 2.4 to 2.13)."""
    return torch.distributed.distributed_c10d._get_process_group_store(group)


def timeout_of(group: Any) -> timedelta:
    """Return a process group's timeout (``_get_backend``, ``_timeout``, in torch 2.4 to 2.13)."""
    for device in group._device_types:
        options = getattr(group._get_backend(device), "options", None)
        if options is not None:
            return cast("timedelta", options._timeout)
    return cast("timedelta", store_of(group).timeout)


def symmetric_memory(nbytes: int, device: torch.device) -> torch.Tensor:
    """Return a tensor in new symmetric memory (``_symmetric_memory.empty``, in torch 2.5 to 2.13)."""
    from torch.distributed._symmetric_memory import empty

    return cast("torch.Tensor", empty(nbytes, dtype=torch.uint8, device=device))


def symmetric_handle(tensor: torch.Tensor, group_name: str) -> Any:
    """Return the handle of symmetric memory. Every rank must make this call (``_symmetric_memory.rendezvous``, in torch 2.5 to 2.13)."""
    from torch.distributed._symmetric_memory import rendezvous

    return rendezvous(tensor, group_name)


def is_symmetric(tensor: torch.Tensor) -> bool:
    """Return True if a tensor is in symmetric memory (``is_symm_mem_tensor``, since torch 2.12).

    torch before 2.12 has no function for this. Its rendezvous looks up the memory first and then the group, so that for an unknown
    group it raises if the memory is symmetric, and returns None otherwise.
    """
    if not tensor.is_cuda:
        return False
    with suppress(ImportError):
        from torch.distributed._symmetric_memory import is_symm_mem_tensor

        return bool(is_symm_mem_tensor(tensor))
    try:
        from torch._C._distributed_c10d import _SymmetricMemory

        return _SymmetricMemory.rendezvous(tensor, "tilecopy: no such group") is not None
    except ImportError:
        return False
    except RuntimeError:
        return True
