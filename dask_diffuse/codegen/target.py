"""What the processor of this machine can do, as the code generator asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

__all__ = ["Target", "host_target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A processor.

    Parameters
    ----------
    triple
        What LLVM calls the kind of machine.
    cpu
        What LLVM calls the processor.
    features
        Its extensions, as LLVM lists them.
    vector_bytes
        Size of its vector registers.
    has_avx, has_avx2, has_avx512
        Which extensions of x86-64 it has: these decide which variants of the vector
        math library can be called.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int = 16
    has_avx: bool = False
    has_avx2: bool = False
    has_avx512: bool = False

    @property
    def fuses(self) -> bool:
        """Whether it has fused multiply-add instructions."""
        return self.has_avx2 or not self.is_x86

    @property
    def is_x86(self) -> bool:
        """Whether it is a 64-bit processor of Intel's or AMD's kind."""
        return self.triple.startswith("x86_64")


@lru_cache(maxsize=1)
def host_target() -> Target:
    """Return the processor we run on."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    known = llvm.get_host_cpu_features()
    x86 = triple.startswith("x86_64")
    # Below AVX-512DQ there is no conversion of 64-bit integers, and the library's
    # AVX-512 functions are those of another processor family.
    avx512 = x86 and all(
        known.get(name, False) for name in ("avx512f", "avx512dq", "avx512bw")
    )
    avx2 = x86 and known.get("avx2", False) and known.get("fma", False)
    avx = x86 and known.get("avx", False)
    vector_bytes = 64 if avx512 else 32 if avx else 16
    return Target(
        triple=triple,
        cpu=llvm.get_host_cpu_name(),
        features=known.flatten(),
        vector_bytes=vector_bytes,
        has_avx=avx,
        has_avx2=avx2,
        has_avx512=avx512,
    )
