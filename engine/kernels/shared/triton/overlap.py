"""Triton functions of launches that overlap; the package states the rules."""

import triton
import triton.language as tl


@triton.jit
def settle(OVERLAP: tl.constexpr):
    """Wait until the launch before has ended and its writes are seen."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()


@triton.jit
def release(OVERLAP: tl.constexpr):
    """Let the next launch start, once all programs have come here or ended."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
