"""What an artifact depends on beside its document."""

from dataclasses import asdict

from common.versions import ARTIFACT_FORMAT
from engine.model.fingerprint import digest
from engine.model.loader import LoadedModel
from precompute.config import PrecomputeConfig


def artifact_fingerprint(model: LoadedModel, config: PrecomputeConfig) -> str:
    """Identify what an artifact depends on beside the document: format, model, plan, settings.

    Of "auto" it is the word that counts, not what it means on a device: whichever back end clusters
    a document, its artifact holds the same keys and values, with budgets calibrated on its own
    clusters. A document that was read on a GPU is not stale for a server without one.
    The prompt counts where settings change what stands before the document.
    """
    settings = asdict(config)
    if config.prefill_dtype == "auto":
        del settings["prefill_dtype"]  # as in fingerprints from before there was such a setting
    fields = {
        "format": ARTIFACT_FORMAT,
        "model": model.fingerprint,
        "plan": model.plan.fingerprint,
        "settings": settings,
    }
    if model.prompt.fingerprint:
        fields["prompt"] = model.prompt.fingerprint
    return digest(fields)
