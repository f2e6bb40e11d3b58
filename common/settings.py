"""All settings, read from the environment (`LECTERN_...`, nested with `__`) or given in code."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

Dtype = Literal["float32", "bfloat16", "float16"]
MIB = 1024 * 1024


class _Group(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ServerSettings(_Group):
    """The HTTP side: limits on everything a stranger can send."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    max_upload_bytes: int = Field(default=64 * MIB, gt=0)
    max_question_chars: int = Field(default=8_000, gt=0)
    max_answer_tokens: int = Field(default=512, gt=0)
    concurrent_questions: int = Field(default=1, gt=0, description="answered at the same time")
    queued_questions: int = Field(default=32, ge=0, description="waiting; one more gets a 429")
    question_timeout_s: float = Field(default=300.0, gt=0)
    resident_cache_bytes: int = Field(default=2048 * MIB, gt=0)
    embedded_worker: bool = True


class WorkerSettings(_Group):
    """Jobs: leases and polling."""

    lease_s: float = Field(default=30.0, gt=0)
    heartbeat_s: float = Field(default=5.0, gt=0)
    poll_s: float = Field(default=1.0, gt=0)
    max_attempts: int = Field(default=3, gt=0)
    extract_timeout_s: float = Field(default=60.0, gt=0)
    extract_memory_bytes: int = Field(default=1024 * MIB, gt=0)


class LookupSettings(_Group):
    """How clusters are found for a question."""

    levels: Literal[1, 2] = 1
    aggregation: Literal["max_group_mean", "mean", "max"] = "max_group_mean"


class PrecomputeSettings(_Group):
    """How a document is read; every field is part of the artifact's fingerprint."""

    chunk_tokens: int = Field(default=8192, gt=0)
    num_sinks: int = Field(default=4, ge=0)
    num_tail: int = Field(default=128, ge=0)
    level2_ratio: float = Field(default=0.05, gt=0, le=1)
    level1_ratio: float = Field(default=0.01, gt=0, le=1)
    clustering: str = "auto"
    kmeans_iterations: int = Field(default=10, gt=0)
    scope_epsilon: float = Field(default=1e-3, gt=0, lt=1)
    heads: str = Field(default="default", description="'all', or a head plan's file")
    num_probes: int = Field(default=64, ge=8)
    dtype: Dtype = "bfloat16"
    seed: int = 0
    lookup: LookupSettings = LookupSettings()


class DecodingSettings(_Group):
    """How questions are answered on a GPU; a CPU knows one way alone."""

    captured: bool = Field(default=True, description="by our own kernels, in CUDA graphs")
    compiled: bool = Field(default=False, description="the first question waits for a compiler")
    own_products: bool = Field(default=True, description="linear layers of a token by our kernel")


class Settings(BaseSettings):
    """One object for the whole process; made at the edge, handed down as frozen configs."""

    model_config = SettingsConfigDict(
        env_prefix="LECTERN_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    model: str = Field(default="", description="Hugging Face folder or id; empty: bundled reader")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    data_dir: Path = Path("lectern-data")
    database_url: SecretStr | None = None
    redis_url: SecretStr | None = None
    log_level: str = "INFO"
    log_json: bool = False
    server: ServerSettings = ServerSettings()
    worker: WorkerSettings = WorkerSettings()
    precompute: PrecomputeSettings = PrecomputeSettings()
    decoding: DecodingSettings = DecodingSettings()

    def sql_url(self) -> str:
        """The SQLAlchemy URL: PostgreSQL if one is set, else SQLite in the data folder."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.data_dir.resolve() / 'lectern.sqlite3'}"
