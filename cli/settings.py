"""All settings, read from the environment (`LECTERN_...`, nested with `__`) or given in code.

Each package defines its own settings and their defaults in its `config.py`. This module combines
them into one object and names the environment variables.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from annotated_types import Ge, Gt
from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.config import ServerConfig
from engine.config import ComputeDtype, DecodeConfig, Device, ModelConfig, PromptConfig
from precompute.config import PrecomputeConfig
from reader import WEIGHTS
from storage.config import StorageConfig
from workers.config import WorkerConfig

PREFIX = "LECTERN_"
# Earlier names of variables, which still count; there is a warning if they are used.
RENAMED = MappingProxyType(
    {
        "LECTERN_PRECOMPUTE__HEADS": "LECTERN_HEADS",
        "LECTERN_SERVER__RESIDENT_CACHE_BYTES": "LECTERN_SERVER__DEVICE_CACHE_BYTES",
        "LECTERN_DECODING__CAPTURED": "LECTERN_DECODING__TRITON_KERNELS",
        "LECTERN_DECODING__COMPILED": "LECTERN_DECODING__COMPILED_LAYERS",
        "LECTERN_DECODING__OWN_PRODUCTS": "LECTERN_DECODING__TRITON_LINEARS",
    }
)


def _parse_arguments(given: Any) -> Any:
    """Turn the template's arguments, JSON in a variable, into a mapping.

    Each may also be a variable of its own, where true and false are words.
    """
    arguments = given.get("template_arguments") if isinstance(given, Mapping) else None
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError as error:
            raise ValueError("TEMPLATE_ARGUMENTS is no JSON object") from error
    if isinstance(arguments, Mapping):
        words = {"true": True, "false": False}
        arguments = {
            name: words.get(value.lower(), value) if isinstance(value, str) else value
            for name, value in arguments.items()
        }
    return given if arguments is None else {**given, "template_arguments": arguments}


class Settings(BaseSettings):
    """The settings of the whole process; each package gets only its own config object."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    model: str = Field(default="", description="Hugging Face folder or id; empty: bundled reader")
    device: Device = "auto"
    dtype: ComputeDtype = "auto"
    heads: str = ModelConfig.heads
    prompt: Annotated[PromptConfig, BeforeValidator(_parse_arguments)] = PromptConfig()
    data_dir: Path = Path("lectern-data")
    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    stored_cache_bytes: Annotated[int, Ge(0)] = StorageConfig.stored_cache_bytes
    answer_days: Annotated[int, Ge(0)] = StorageConfig.answer_days
    conversation_hours: Annotated[float, Gt(0)] = StorageConfig.conversation_hours
    stored_answer_hours: Annotated[float, Ge(0)] = StorageConfig.stored_answer_hours
    log_level: str = "INFO"
    log_json: bool = False
    server: ServerConfig = ServerConfig()
    worker: WorkerConfig = WorkerConfig()
    precompute: PrecomputeConfig = PrecomputeConfig()
    decoding: DecodeConfig = DecodeConfig()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment, where variables may have their earlier names."""
        if isinstance(env_settings, EnvSettingsSource):
            env_settings.env_vars = _with_present_names(env_settings.env_vars)
        return init_settings, env_settings

    def model_files(self) -> ModelConfig:
        """Return what model to load; it is the bundled reader if the settings name none."""
        path = self.model or str(WEIGHTS)
        return ModelConfig(path, self.device, self.dtype, self.heads, self.prompt)

    def server_for_model(self) -> ServerConfig:
        """Return the server's settings; the bundled reader quotes unless they say otherwise."""
        if self.server.answer_mode != "auto":
            return self.server
        is_bundled = Path(self.model_files().path).resolve() == WEIGHTS.resolve()
        return replace(self.server, answer_mode="quote" if is_bundled else "free")

    def storage(self) -> StorageConfig:
        """Return the settings of storage."""
        return StorageConfig(
            data_dir=self.data_dir,
            database_url=_text(self.database_url),
            redis_url=_text(self.redis_url),
            stored_cache_bytes=self.stored_cache_bytes,
            answer_days=self.answer_days,
            conversation_hours=self.conversation_hours,
            stored_answer_hours=self.stored_answer_hours,
        )


def _with_present_names(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Rename variables to their present names; if both are given, the present one counts."""
    present = {old.lower(): new.lower() for old, new in RENAMED.items()}
    renamed = {present[name]: value for name, value in variables.items() if name in present}
    unchanged = {name: value for name, value in variables.items() if name not in present}
    return renamed | unchanged


def _text(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def variables() -> dict[str, Any]:
    """Return the names of all environment variables that are settings, with their defaults."""
    return dict(_variables(PREFIX, {n: f.default for n, f in Settings.model_fields.items()}))


def _variables(prefix: str, defaults: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, default in defaults.items():
        if is_dataclass(default):
            nested = {field.name: getattr(default, field.name) for field in fields(default)}
            yield from _variables(f"{prefix}{name.upper()}__", nested)
        else:
            yield prefix + name.upper(), default
