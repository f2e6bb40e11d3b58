"""Launches that begin while the one before them ends: programmatic dependent launch.

Such a launch may start its programs as soon as every program of the launch before has released
it (`release`) or ended. What only the host's order of launches kept apart is then kept apart by
waiting (`settle`), which returns when the launch before has ended and its writes are seen.

Rules, which every kernel that takes `OVERLAP` follows:

1. Every program settles, on every path and once, before it writes anything and before it reads
   what the launch before it may write. A buffer that the launch before still reads is not
   overwritten either. It settles outside of loops: a loop's loads are asked for ahead of it.
2. A program releases the next launch only after it has settled itself, or not at all, which
   releases it at the end.

So the end of a launch means the end of all before it: an ordinary launch starts after them, and a
program of any other has waited for the one before. By the second rule more holds: when a program
starts, all launches but the one right before it have ended, as that one's programs have waited for
them. At most two launches are under way, and before it settles a program may read whatever the
launch right before it does not write:

- `survey` a document's centroids and offsets. Right before it come a copy of the query or
  `append_keys`, and for whoever reads the list beside the layer `note_weights`; a document is
  written when it is made resident, before the pass, which begins with ordinary launches.
- `descend` parents, offsets, thresholds and queries, behind `survey`.
- `select_runs` offsets and thresholds, behind `survey` or `descend`.
- `merge_splits` states over near keys and totals, where `attend_runs` comes right before it.

The launches of a question's prefill follow the same rules where it has at most `MOST_ROWS` rows
(`engine.kernels.shared.overlap`, the one place that turns them on). They come in a fixed order:
`mass`, `vote`, `list`, `attend`, `join`; `long_vote` instead of `vote`, and `pack` before `attend`,
are ordinary launches.

- `mass` nothing, as any launch may come before it, also one that writes the question.
- `vote` the question, behind `mass`.
- `list` and `attend` nothing: what they ask for first is what `vote` and `list` leave.
- `join` counts and the state around, behind `attend`.

A launch starts when all programs of the one before have started, so those that it puts on the GPU
take no place that the one before still needs. `select_runs`, whose programs wait for each other,
can therefore not be kept from ending by programs of `attend_runs` that wait for it; nor by those of
the launch before it, all of which are under way, and wait for nobody.

Source: CUDA programming guide, programmatic dependent launch; PTX, griddepcontrol.
"""

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
