"""Triton functions of launches that overlap; `engine.kernels.shared.overlap` has the rules."""

import triton
import triton.language as tl


@triton.jit
def wait_for_previous_launch(OVERLAP: tl.constexpr):
    """Wait until the previous launch has ended and its writes can be read."""
    if OVERLAP:
        tl.extra.cuda.gdc_wait()


@triton.jit
def release_next_launch(OVERLAP: tl.constexpr):
    """Allow the next launch to start, once all programs of this one have called this or ended."""
    if OVERLAP:
        tl.extra.cuda.gdc_launch_dependents()
