"""Training of gates by distillation: the model stays as it is, and so should its answers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import mse_loss
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from common.errors import UnsupportedModel
from engine.model.attention import AttentionState
from engine.model.loader import LoadedModel
from precompute.heads.base import Progress, Streaming, refuse_plan
from precompute.heads.duo.config import DuoConfig
from precompute.heads.duo.gated_questions import GatedQuestionState
from precompute.heads.duo.gates import GatedDocumentState
from precompute.heads.duo.haystack import open_haystack
from precompute.heads.duo.passkeys import PasskeyDocument, Passkeys
from precompute.heads.duo.state import load_state, save_state

# Not cuDNN's: it builds a plan for each length, and documents are of many lengths.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FLOOR = 0.1  # of the learning rate's height
RAMP = 0.2  # of all steps, up and down alike
MOMENTS = ("exp_avg", "exp_avg_sq", "step")  # AdamW's memory of a parameter


def train_gates(
    model: LoadedModel, config: DuoConfig, progress: Progress, initial: Tensor | None = None
) -> Tensor:
    """Train gates until answers to passkey questions stay close to full attention's.

    Args:
        progress: told steps done and their total, before the first step and after each; may raise
            to stop, and a later call resumes from the last saved state.
        initial: gates to begin with, (layers, kv_heads), or (layers, 1) for a gate a layer; ones
            for every KV head if None.
    Returns: gates in [0, 1], fp32, of the shape of `initial`, on the CPU.
    Raises: InvalidInput if the state on disk is of another training, documents do not fit or the
        model was loaded with a head plan;
        UnsupportedModel for ALiBi, or if layers differ in their number of heads.
    Source: DuoAttention, section 2.2, equations 1 to 3.
    """
    training = GateTraining.begin(model, config, initial)
    progress(training.step, config.steps)
    while not training.is_done:
        training.take_step()
        if config.state and (training.step % config.save_steps == 0 or training.is_done):
            training.save()
        progress(training.step, config.steps)
    return training.gates.detach().cpu()


class GateTraining:
    """Gates on their way, and the optimiser that moves them.

    Attributes:
        step: steps taken.
        gates: fp32, on the model's device.
    """

    def __init__(self, model: LoadedModel, config: DuoConfig, initial: Tensor) -> None:
        refuse_plan(model)
        if any(layer.alibi is not None for layer in model.spec.layers):
            raise UnsupportedModel("Heads of an ALiBi model are told apart by their scope alone.")
        if any(layer.has_sink_logits for layer in model.spec.layers):
            raise UnsupportedModel(
                "Gates are not trained for heads with sink logits (gpt-oss): `razor` measures them."
            )
        self.step = 0
        self.gates = initial.to(model.device, torch.float32).clone().requires_grad_()
        self._model = model
        self._config = config
        self._passkeys = Passkeys.of(model, config, open_haystack(config.haystack))
        self._optimiser = torch.optim.AdamW([self.gates], weight_decay=0.0)
        self._about = {**config.described(), "model": model.weights, "initial": initial.tolist()}

    @classmethod
    def begin(
        cls, model: LoadedModel, config: DuoConfig, initial: Tensor | None = None
    ) -> "GateTraining":
        """Begin a training, or go on where its saved state left off.

        Args:
            initial: gates (layers, kv_heads) in [0, 1]; all ones if None.
        """
        training = cls(model, config, _ones(model) if initial is None else initial)
        saved = load_state(Path(config.state), training._about) if config.state else None
        if saved is not None:
            training._restore(saved)
        return training

    @property
    def is_done(self) -> bool:
        """Whether all steps are taken."""
        return self.step >= self._config.steps

    def take_step(self) -> None:
        """One document: distillation and sparsity, a step, gates back into [0, 1]."""
        config = self._config
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate(self.step, config.steps, config.learning_rate)
        document = self._passkeys.document(self.step)
        with frozen(self._model.model), sdpa_kernel(KERNELS):
            num_tokens = int((document.turns == 0).sum())  # whose rotary factors hold for all
            model = self._model.for_length(num_tokens)
            loss = distillation_loss(model, document, self.gates, config)
            loss = loss + config.regularisation * self.gates.abs().mean()
            loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self._optimiser.zero_grad()
        with torch.no_grad():
            self.gates.clamp_(0.0, 1.0)
        self.step += 1

    def save(self) -> None:
        """Write gates, moments and settings."""
        moments: Mapping[str, Any] = self._optimiser.state[self.gates]
        tensors = {"gates": self.gates, **{name: moments[name] for name in MOMENTS}}
        save_state(Path(self._config.state), tensors, self._about)

    def _restore(self, saved: dict[str, Tensor]) -> None:
        self.step = int(saved["step"])
        with torch.no_grad():
            self.gates.copy_(saved["gates"])
        on_device = {name: saved[name].to(self.gates.device) for name in MOMENTS}
        # AdamW counts steps on the CPU.
        self._optimiser.state[self.gates] = on_device | {"step": saved["step"]}


def distillation_loss(
    model: LoadedModel, document: PasskeyDocument, gates: Tensor, config: DuoConfig
) -> Tensor:
    """Mean squared error of the last hidden states where answers are foretold, fp32.

    Args:
        gates: as for `GatedDocumentState`; the loss has a gradient for them.
    Source: DuoAttention, equation 1 (its sum over the width is a mean here, as in the authors'
        code).
    """
    ids, answers = document.ids.to(model.device), document.answers.to(model.device)
    turns = document.turns.to(model.device)
    turns = turns if config.recipe == "served" else torch.zeros_like(turns)  # one text, all of it
    positions = turn_positions(turns)
    with torch.no_grad():
        wanted = last_hidden(model, ids, positions, attention(None, turns, config))[answers]
    given = last_hidden(model, ids, positions, attention(gates, turns, config))[answers]
    return mse_loss(given.float(), wanted.float())


def turn_positions(turns: Tensor) -> Tensor:
    """Positions (tokens,) of turns that each follow right after the document, number 0."""
    places = torch.arange(len(turns), device=turns.device)
    first = torch.searchsorted(turns, turns)  # where the token's turn begins
    return places - first + (turns > 0) * (turns == 0).sum()


def attention(gates: Tensor | None, turns: Tensor, config: DuoConfig) -> AttentionState:
    """Attention of a document, number 0, and of the turns that each see it and themselves alone.

    Args:
        gates: as for `GatedDocumentState`.
        turns: (tokens,) the number of each token's turn, ascending.
    """
    num_tokens = int((turns == 0).sum())
    document = GatedDocumentState(
        gates, num_tokens, num_sinks=config.num_sinks, window=config.window
    )
    if num_tokens == len(turns):
        return document
    streaming = Streaming(config.num_sinks, config.window, config.compensation)
    return GatedQuestionState(document, turns[num_tokens:], gates, streaming)


def last_hidden(
    model: LoadedModel, ids: Tensor, positions: Tensor, state: AttentionState
) -> Tensor:
    """The model's last hidden states (tokens, width), after its last norm."""
    backbone: Any = model.model.base_model
    output = backbone(
        input_ids=ids[None], position_ids=positions[None], use_cache=False, lectern=state
    )
    hidden: Tensor = output.last_hidden_state[0]
    return hidden


def _ones(model: LoadedModel) -> Tensor:
    heads = {layer.num_kv_heads for layer in model.spec.layers}
    if len(heads) > 1:
        raise UnsupportedModel("The model's layers differ in their number of KV heads.")
    return torch.ones(model.spec.num_layers, heads.pop())


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """Freeze the weights, and let layers keep only their inputs: memory is that of one layer.

    A layer is computed once more for its gradient. Only the layers themselves are told that they
    train, which is what transformers asks for; what is inside them stays as in inference.
    """
    weights = [one for one in model.parameters() if one.requires_grad]
    layers: list[Any] = [
        one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)
    ]
    for weight in weights:
        weight.requires_grad_(False)
    for layer in layers:
        layer.gradient_checkpointing = layer.training = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = layer.training = False
        for weight in weights:
            weight.requires_grad_(True)


def learning_rate(step: int, steps: int, height: float) -> float:
    """The rate of a step, from 0 on.

    Linear from a tenth of the height in the first fifth of the steps, and back to it in the last.
    Source: DuoAttention, section 3.1.
    """
    ramp = RAMP * steps
    share = min(1.0, step / ramp, (steps - 1 - step) / ramp)
    return height * (FLOOR + (1 - FLOOR) * max(0.0, share))
