"""What the routes work with, put together once by the composition root."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request

from app.services.document_cache import ResidentDocuments
from app.services.question_queue import QuestionDesk
from app.services.watchers import Watchers
from common.settings import Settings
from engine.answer import Answer, TextDelta, answer
from engine.decode.sampling import Sampling
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from storage import Storage


class AnswerQuestion(Protocol):
    """How a question is answered: pieces first, one Answer last; see `engine.answer.answer`."""

    def __call__(
        self,
        model: LoadedModel,
        document: DocumentCache,
        question: str,
        *,
        budget: float,
        sampling: Sampling,
        cancelled: Callable[[], bool],
    ) -> Iterator[TextDelta | Answer]: ...


class Unpack(Protocol):
    """How an artifact's files become a document; see `engine.document.artifact.unpack`."""

    def __call__(
        self,
        manifest: Mapping[str, Any],
        files: Iterable[tuple[str, bytes]],
        *,
        device: Any,
        dtype: Any,
    ) -> DocumentCache: ...


@dataclass(frozen=True)
class Services:
    """Everything behind the routes; one per process.

    Attributes:
        fingerprint: that of artifacts which this model and these settings may answer from.
        answer, unpack: the engine's; tests put simpler ones in their place.
    """

    settings: Settings
    storage: Storage
    model: LoadedModel
    fingerprint: str
    resident: ResidentDocuments[DocumentCache]
    questions: QuestionDesk
    answer: AnswerQuestion = field(default=answer)
    unpack: Unpack = field(default=unpack)
    watchers: Watchers = field(default_factory=Watchers)


def make_services(
    settings: Settings, storage: Storage, model: LoadedModel, fingerprint: str
) -> Services:
    """Put the services together; `create_app` starts and stops their threads.

    Args:
        model: the loaded model, warm.
        fingerprint: `precompute.fingerprint.artifact_fingerprint` of model and settings.
    """
    server = settings.server
    return Services(
        settings=settings,
        storage=storage,
        model=model,
        fingerprint=fingerprint,
        resident=ResidentDocuments(server.resident_cache_bytes),
        questions=QuestionDesk(
            threads=server.concurrent_questions,
            queued=server.queued_questions,
            timeout_s=server.question_timeout_s,
        ),
    )


def services_of(request: Request) -> Services:
    """Return the services of the app that answers `request`."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]
