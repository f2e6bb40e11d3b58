"""Work beside the main stream is done when it is joined, with what it read left as it was."""

import torch

from engine.decode.side_stream import SideStream

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def test_a_branch_has_happened_after_the_join() -> None:
    aside, total = SideStream(DEVICE), torch.zeros(1 << 22, device=DEVICE)
    for step in range(20):
        read = torch.full_like(total, float(step))
        aside.join()
        with aside.branch(read):
            total += read
        del read
    aside.join()
    assert total.unique().tolist() == [190.0]
