"""Which launches overlap, and how a kernel is told."""

import torch

LEAST_CAPABILITY = (9, 0)  # Hopper
MOST_ROWS = 256  # a head, of questions whose launches overlap; longer ones were not timed


def can_overlap(device: torch.device) -> bool:
    """Whether a device starts a launch before the last one has ended; an interpreter does not."""
    if device.type != "cuda" or torch.version.hip is not None:
        return False
    from triton import knobs

    capable = torch.cuda.get_device_capability(device) >= LEAST_CAPABILITY
    return capable and not knobs.runtime.interpret


def overlaps(rows: int) -> bool:
    """Whether launches of a question's prefill, of so many rows a head, overlap where they can.

    On an H200, over 512K and 128K keys, 64 rows gain 3 and 6 % by it, 256 rows .7 and 2 %. Longer
    questions were not timed.
    """
    return rows <= MOST_ROWS


def launch_options(overlap: bool) -> dict[str, bool]:
    """Of a kernel that takes `OVERLAP`; other compilers than CUDA's do not know `launch_pdl`."""
    return {"OVERLAP": True, "launch_pdl": True} if overlap else {"OVERLAP": False}
