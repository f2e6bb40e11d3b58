"""Copies of documents between the device's memory and the host's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from engine.document.cache import Clusters, DocumentCache, LayerCache, ScopedHeads, StreamingCache
from engine.model.memory import out_of_memory_as_busy
from engine.residents.staging import Staging

Copy = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class DocumentTransfer:
    """Copies documents between a device and the host; a `Transfer`.

    On a CPU both are the host's memory, and a copy is a copy all the same.
    """

    staging: Staging

    def to_host(self, cache: DocumentCache) -> DocumentCache:
        """See `Transfer.to_host`; each layer lies in one piece of memory."""

        def copy(layer: LayerCache) -> LayerCache:
            sources = list(layer.tensors())
            return copy_layer(layer, _among(sources, self.staging.to_host(sources)))

        return cache.with_layers(self.staging.map(copy, cache.layers))

    def to_device(self, cache: DocumentCache) -> DocumentCache:
        """See `Transfer.to_device`."""
        sources = [tensor for layer in cache.layers for tensor in layer.tensors()]
        with out_of_memory_as_busy():
            targets = self.staging.to_device(sources)
        copy = _among(sources, targets)
        return cache.with_layers([copy_layer(layer, copy) for layer in cache.layers])


def _among(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> Copy:
    """Return what finds the copy of each source."""
    copies = dict(zip(map(id, sources), targets, strict=True))
    return lambda source: copies[id(source)]


def copy_layer(layer: LayerCache, copy: Copy) -> LayerCache:
    """Return a layer whose tensors are what `copy` makes of them."""
    return replace(
        layer,
        keys=copy(layer.keys),
        values=copy(layer.values),
        positions=copy(layer.positions),
        level2=_copy_clusters(layer.level2, copy),
        level1=_copy_clusters(layer.level1, copy),
        streaming=None if layer.streaming is None else _copy_streaming(layer.streaming, copy),
        scoped=tuple(_copy_scoped(part, copy) for part in layer.scoped),
    )


def _copy_clusters(clusters: Clusters, copy: Copy) -> Clusters:
    return Clusters(copy(clusters.centroids), copy(clusters.offsets))


def _copy_streaming(cache: StreamingCache, copy: Copy) -> StreamingCache:
    return replace(cache, keys=copy(cache.keys), values=copy(cache.values))


def _copy_scoped(part: ScopedHeads, copy: Copy) -> ScopedHeads:
    return replace(part, keys=copy(part.keys), values=copy(part.values))
