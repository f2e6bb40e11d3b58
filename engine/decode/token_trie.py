"""All tokens of a vocabulary by their bytes, walked along many places of a text at once."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
NO_BYTE = 0xFF  # in no text in UTF-8, though byte-level vocabularies have it
MOST_BYTES = 64  # of a token; a longer one is left out, as shorter ones write the same
FEW_PLACES = 8  # that are walked one after the other, without arrays
BLANKS = b" \t\n\r\f\v"
ROOT = 0


def with_single_spaces(written: bytes) -> bytes:
    """Make every run of blanks one space."""
    if not any(blank in written for blank in b"\t\n\r\f\v") and b"  " not in written:
        return written
    spaced = bytes(0x20 if byte in BLANKS else byte for byte in written)
    while b"  " in spaced:
        spaced = spaced.replace(b"  ", b" ")
    return spaced


class TokenTrie:
    """A trie of the tokens' bytes, in which a run of blanks is one space.

    Args:
        written: the bytes of each token by its id; those without any are in no trie.

    Attributes:
        written: by id, with single spaces; empty where a token is left out.
        depth: bytes of the longest token.
    """

    def __init__(self, written: Sequence[bytes]) -> None:
        spaced = [with_single_spaces(one) for one in written]
        fits = (len(one) <= MOST_BYTES and NO_BYTE not in one for one in spaced)
        self.written = [one if fit else b"" for one, fit in zip(spaced, fits, strict=True)]
        self.depth = max(map(len, self.written), default=0)
        lengths = np.array([len(one) for one in self.written], dtype=np.int64)
        table = np.zeros((len(self.written), max(1, self.depth)), dtype=np.int64)
        joined = np.frombuffer(b"".join(self.written), dtype=np.uint8)
        table[np.arange(table.shape[1])[None, :] < lengths[:, None]] = joined
        self._edges, nodes, num_nodes = _edges(table, lengths)
        ids = np.flatnonzero(lengths > 0)
        order = np.argsort(nodes[ids], kind="stable")
        self._ids = ids[order]
        self._starts = np.searchsorted(nodes[self._ids], np.arange(num_nodes + 1))

    def child(self, nodes: Places, following: NDArray[np.uint8]) -> Places:
        """Go down by one byte from each node; -1 where no token goes on like that.

        Args:
            nodes, following: (places,), the byte for each node.
        """
        wanted = nodes * 256 + following
        at = np.searchsorted(self._edges, wanted)
        at[at == len(self._edges)] = 0
        found = self._edges[at] == wanted if len(self._edges) else np.zeros(len(at), dtype=bool)
        return np.where(found, at + 1, -1)  # the n-th edge leads to node n + 1

    def walk(self, text: NDArray[np.uint8], places: Places, start: int | Places = ROOT) -> Places:
        """Go down along a text from many places of it.

        Args:
            text: ends with `depth` bytes that no token holds.
            places: where to begin (places,).
            start: the node to begin at, or one for each place.
        Returns: all nodes that were reached below it, each once.
        """
        nodes = np.broadcast_to(np.asarray(start, dtype=np.int64), places.shape)
        if len(places) <= FEW_PLACES:
            return self._walk_few(text, places, nodes)
        reached = [nodes[:0]]
        while len(places):
            nodes = self.child(nodes, text[places])
            alive = nodes >= 0
            nodes, places = nodes[alive], places[alive] + 1
            if len(nodes) > 256:
                reached.append(np.unique(nodes))
            else:
                reached.append(nodes)
        return np.unique(np.concatenate(reached))

    def _walk_few(self, text: NDArray[np.uint8], places: Places, nodes: Places) -> Places:
        """As `walk`: a quote that was begun stands at few places, where arrays cost most."""
        children, reached = self._children, set[int]()
        for place, node in zip(places.tolist(), nodes.tolist(), strict=True):
            for byte in text[place : place + self.depth].tobytes():
                node = children.get(256 * node + byte, ROOT)  # no edge leads to the root
                if node == ROOT:
                    break
                reached.add(node)
        return np.array(sorted(reached), dtype=np.int64)

    @cached_property
    def _children(self) -> dict[int, int]:
        """As `_edges`, from parent x 256 + byte to the node."""
        return dict(zip(self._edges.tolist(), range(1, len(self._edges) + 1), strict=True))

    def spell(self, written: bytes, start: int = ROOT) -> list[int]:
        """Return the nodes on the way along some bytes, as far as tokens go on like that."""
        nodes, node = [], np.array([start])
        for byte in written:
            node = self.child(node, np.array([byte], dtype=np.uint8))
            if node[0] < 0:
                break
            nodes.append(int(node[0]))
        return nodes

    def tokens(self, nodes: Places) -> Places:
        """Return the ids of the tokens that end at any of some nodes."""
        starts, ends = self._starts[nodes], self._starts[nodes + 1]
        counts = ends - starts
        total = int(counts.sum())
        before = np.repeat(np.cumsum(counts) - counts, counts)
        found: Places = self._ids[np.repeat(starts, counts) + np.arange(total) - before]
        return found


def _edges(table: Places, lengths: Places) -> tuple[Places, Places, int]:
    """Number the nodes level by level.

    Args:
        table: the tokens' bytes (tokens, depth).
    Returns: edges as parent x 256 + byte, rising, the n-th of which leads to node n + 1; the node
        at which each token ends; the number of nodes.
    """
    nodes = np.zeros(len(table), dtype=np.int64)
    edges, num_nodes = [], 1
    for depth in range(table.shape[1]):
        going_on = np.flatnonzero(lengths > depth)
        if not len(going_on):
            break
        level, inverse = np.unique(
            nodes[going_on] * 256 + table[going_on, depth], return_inverse=True
        )
        nodes[going_on] = num_nodes + inverse
        edges.append(level)
        num_nodes += len(level)
    joined = np.concatenate(edges) if edges else np.zeros(0, dtype=np.int64)
    return joined, nodes, num_nodes
