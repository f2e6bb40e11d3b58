"""Sizes of tiles and shares of work."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tuning:
    """Sizes of tiles and shares of work; none of them changes results but for rounding.

    Attributes:
        near_keys: near keys (anchors, streaming keys, a question's own) a program.
        part_clusters, score_programs: a program scores that many centroids at least, of one-level
            lookup or of level 1, and there are at most so many programs, as all of them fit a GPU
            at once: in a second wave most of them would wait for few.
        score_block, score_stages, score_warps: tiles of the survey and, but for their stages
            (`descend_stages`), of the descent.
        upper: level-1 clusters a program descends from; descend_registers: of a thread of it, at
            most, where a tile has 16 rows: so many that all programs fit a GPU at once.
        chunk_scores: scores a program of the selection takes; select_warps: its warps.
        piece: longest piece of a run, a power of two of at most 16.
        block, stages, warps, programs: of the attention over runs.
        overlapped: let a kernel's programs start while those of the one before it end
            (programmatic dependent launch); the first kernel of a step waits for all before it.
    """

    near_keys: int = 256
    part_clusters: int = 64
    score_programs: int = 264
    score_block: int = 64
    score_stages: int = 3
    score_warps: int = 4
    descend_stages: int = 2
    descend_registers: int = 96
    upper: int = 32
    chunk_scores: int = 4096
    select_warps: int = 8
    piece: int = 16
    block: int = 64
    stages: int = 4
    warps: int = 4
    programs: int = 264
    overlapped: bool = False

    @property
    def launch(self) -> dict[str, bool]:
        """Options of every launch after the first; the interpreter does not know this one."""
        return {"launch_pdl": True} if self.overlapped else {}


def fitting(head_dim: int, element_size: int) -> Tuning:
    """Tiles for keys of so many numbers of so many bytes: the wider, the shorter.

    Tiles were measured on keys of 256 bytes; several times as much would not fit into an SM.
    """
    tuning = Tuning()
    by = max(1, head_dim * element_size // 256)
    return replace(
        tuning,
        score_block=max(16, tuning.score_block // by),
        block=max(16, tuning.block // by),
    )
