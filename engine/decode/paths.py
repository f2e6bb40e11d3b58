"""Which code answers questions about a document on a GPU: kernels and graphs, or plain torch."""

from dataclasses import dataclass

from common.errors import UnsupportedModel
from engine.attend.clusters_gpu import why_without_kernels
from engine.decode.graph import DecodeGraph
from engine.document.cache import DocumentCache
from engine.model.spec import ModelSpec

CAPACITY = 512  # tokens of question and answer that a graph is made for, to see if it can be


@dataclass(frozen=True)
class ServingPaths:
    """What keeps a GPU from its quickest code.

    Attributes:
        without_kernels: why a question's prefill goes through plain torch; None if it does not.
        without_graph: why decoding does; None if it goes through a CUDA graph.
    """

    without_kernels: str | None
    without_graph: str | None


def serving_paths(spec: ModelSpec, document: DocumentCache) -> ServingPaths:
    """Ask the code that decides, with a document that may have shapes alone.

    Args:
        spec: the model's attention layers.
        document: a document of that model, on whatever device.
    """
    return ServingPaths(_why_without_kernels(document), _why_without_graph(spec, document))


def _why_without_kernels(document: DocumentCache) -> str | None:
    if any(layer.scoped for layer in document.layers):
        return "its heads have linear biases (ALiBi)"
    return why_without_kernels(document)


def _why_without_graph(spec: ModelSpec, document: DocumentCache) -> str | None:
    try:
        DecodeGraph(spec, document, CAPACITY)
    except UnsupportedModel as refusal:
        return refusal.message
    return None
