"""How long reading a document should take, from the model's sizes and the document's length."""

import torch

from engine.model.loader import LoadedModel

# Floating-point operations a second, all phases together: what two cores of a server reach with the
# bundled reader and 8,000 tokens, and a tenth of what an H200 reaches with an 8B model and 128K.
SPEED = {"cpu": 4e10, "cuda": 2e13}
CALIBRATION_S = 10.0  # probes are asked even of a document of one line
KMEANS_SHARE = 1.1  # level-2 clusters per token (0.05), times 11 passes, times 2 operations


def expected_reading_s(model: LoadedModel, num_tokens: int) -> float:
    """Estimate how long it takes to read a document, from its tokens to its artifact.

    The estimate is meant for deadlines: machines differ by far more than it does from the truth.

    Args:
        num_tokens: of the document.
    Returns: seconds on a machine of ordinary speed of the model's kind of device.
    """
    operations = 2.0 * _num_parameters(model.model) * num_tokens
    for index, layer in enumerate(model.spec.layers):
        share = model.plan.num_retrieval(index) / layer.num_kv_heads
        window = num_tokens if layer.window is None else min(layer.window, num_tokens)
        attended = num_tokens * (share * window + (1 - share) * min(4096, num_tokens))
        operations += 2.0 * layer.num_heads * layer.head_dim * attended
        if layer.window is None:
            clustered = share * layer.num_kv_heads * layer.head_dim * num_tokens**2
            operations += KMEANS_SHARE * clustered
    return CALIBRATION_S + operations / SPEED[model.device.type]


def _num_parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
