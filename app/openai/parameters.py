"""Parameters of OpenAI's API: which are taken, which change nothing, and which are refused."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

from common.errors import UnsupportedParameter

# A value that asks for nothing which the server does not do anyway; None is always one.
NOTHING: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "access_programs": ([],),
        "audio": (),
        "background": (False,),
        "context_management": ([],),
        "conversation": (),
        "frequency_penalty": (0,),
        "function_call": ("none", "auto"),
        "functions": ([],),
        "image": (),
        "include": ([],),
        "logit_bias": ({},),
        "logprobs": (False,),
        "max_tool_calls": (),
        "modalities": (["text"],),
        "moderation": (),
        "n": (1,),
        "prediction": (),
        "presence_penalty": (0,),
        "prompt": (),
        "reasoning": ({}, {"effort": "none"}),
        "reasoning_effort": ("none",),
        "response_format": ({"type": "text"},),
        "text": (
            {},
            {"format": {"type": "text"}},
            {"verbosity": "medium"},
            {"format": {"type": "text"}, "verbosity": "medium"},
        ),
        "tool_choice": ("none", "auto"),
        "tools": ([],),
        "top_logprobs": (0,),
        "verbosity": ("medium",),
        "web_search_options": (),
    }
)
# Names for the caller's own bookkeeping, and hints about caches that do not change an answer.
IGNORED = frozenset(
    {"metadata", "parallel_tool_calls", "prompt_cache_key", "prompt_cache_options",
     "prompt_cache_retention", "safety_identifier", "service_tier", "store", "stream_options",
     "user"}
)  # fmt: skip


class Parameters(BaseModel):
    """Base class of request bodies: what a body does not declare is checked by name.

    A parameter that changes nothing is accepted. One that asks for something which the server does
    not do is refused by name, and so is one that nobody knows.

    Raises: UnsupportedParameter.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_what_changes_nothing(cls, body: Any) -> Any:
        if not isinstance(body, dict):
            return body
        declared = set(cls.model_fields)
        kept = {}
        for name, value in body.items():
            if name in declared:
                kept[name] = value
            elif name not in IGNORED:
                _check_asks_for_nothing(str(name), value)
        return kept


def _check_asks_for_nothing(name: str, value: Any) -> None:
    if name in NOTHING:
        if value is None or value in NOTHING[name]:
            return
        raise UnsupportedParameter(
            f"`{name[:64]}` is not supported with this value: leave it out.", param=name[:64]
        )
    raise UnsupportedParameter(f"`{name[:64]}` is no parameter of this call.", param=name[:64])
