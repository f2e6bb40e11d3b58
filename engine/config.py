"""Settings of the engine: which model, how clusters are found, how a GPU answers. No torch here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Predicate

Device = Literal["auto", "cpu", "cuda"]
ComputeDtype = Literal["auto", "float32", "bfloat16", "float16"]
AnswerMode = Literal["free", "quote"]
SCOPE_EPSILON = 1e-3  # RazorAttention, section 4: attention weight that may be left out


def has_text(text: str) -> bool:
    """Return whether a text is more than white space."""
    return bool(text.strip())


@dataclass(frozen=True)
class PromptConfig:
    """How a model is addressed.

    Attributes:
        format: "chat" for the model's own chat template; "plain" for lines that begin with
            "Question:" and "Answer:", as they suit a model without a chat template.
        template_arguments: what the chat template is given beside the messages. Unless it says
            otherwise, a template that knows `enable_thinking` is told false.
    """

    format: Literal["chat", "plain"] = "chat"
    template_arguments: Mapping[str, bool | int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelConfig:
    """Which model, where it runs and in which precision.

    Attributes:
        path: a Hugging Face folder, or an id that is in the local cache or can be fetched.
        device: one of `Device`; "auto" is the GPU if there is one.
        dtype: one of `ComputeDtype`; "auto" is float32 on a CPU and bfloat16 on a GPU.
        heads: a head plan's file, "all" for retrieval heads alone, or "default" for the plan in the
            model's folder, if there is one.
        prompt: how it is addressed.
    """

    path: str
    device: str = "auto"
    dtype: str = "auto"
    heads: str = "default"
    prompt: PromptConfig = field(default_factory=PromptConfig)


@dataclass(frozen=True)
class DecodeConfig:
    """How questions are answered; a CPU always uses plain torch.

    Attributes:
        triton_kernels: answer by this project's Triton kernels and decode in CUDA graphs, without
            waiting for the host within a token; false: in plain torch.
        compiled_layers: prefill questions and decode with compiled decoder layers; None: where
            graphs are captured when the engine is warmed up, so that no question waits for the
            compiler.
        triton_linears: compute a token's linear layers by a Triton kernel that reads their weights
            faster than the library does; false: by the library.
        batch_graphs: prefill questions, and decode all answers together, in graphs that are
            captured for numbers of tokens and rows when the engine is warmed up, whatever the
            documents; false: one answer a document decodes in a graph of the document's, all else
            is launched operation by operation.
        question_chunk_tokens: a longer question is prefilled in parts of so many tokens, between
            which others decode; each part selects for itself. This holds on a CPU too.
        turn_state_bytes: of the keys and values of conversations' turns, which are kept in the
            host's memory for the next question; 0 to prefill earlier turns again each time.
        turn_state_s: seconds for which they are kept after their last use.
        refusal: the sentence that says that a document holds no answer: the only one that an answer
            in quote mode can be beside the document's own text. The bundled reader's by default.
    """

    triton_kernels: bool = True
    compiled_layers: bool | None = None
    triton_linears: bool = True
    batch_graphs: bool = True
    question_chunk_tokens: Annotated[int, Ge(1)] = 512
    turn_state_bytes: Annotated[int, Ge(0)] = 256 << 20
    turn_state_s: Annotated[float, Gt(0)] = 900.0
    refusal: Annotated[str, Predicate(has_text)] = "The document does not say."


@dataclass(frozen=True)
class LookupConfig:
    """How clusters are found.

    Attributes:
        levels: 1 for one-level lookup, 2 for hierarchical lookup.
        aggregation: how the query heads and tokens of a question are aggregated into one score per
            cluster, see `engine.kernels.shared.score_clusters`.
    """

    levels: Annotated[int, Ge(1), Le(2)] = 1
    aggregation: Literal["max_group_mean", "mean", "max"] = "max_group_mean"
