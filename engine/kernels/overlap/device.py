"""Whether launches overlap, and how a kernel is told."""

import torch

LEAST_CAPABILITY = (9, 0)  # Hopper


def can_overlap(device: torch.device) -> bool:
    """Whether a device starts a launch before the last one has ended; an interpreter does not."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    from triton import knobs

    capable = torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY
    return capable and not knobs.runtime.interpret


def launch_options(overlap: bool) -> dict[str, bool]:
    """Of a kernel that takes `OVERLAP`; other compilers than CUDA's do not know `launch_pdl`."""
    return {"OVERLAP": True, "launch_pdl": True} if overlap else {"OVERLAP": False}
