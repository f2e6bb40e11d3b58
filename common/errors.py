"""The tree of all errors that this project raises on purpose.

The five families say what can be done about an error; its `code` says what happened. Nothing here
knows about HTTP: `app` maps codes to statuses, and `workers` decides what is tried again. A message
is one or two sentences for the person who made the request.
"""


class LecternError(Exception):
    """Base class of all errors that this project raises on purpose.

    Args:
        message: what happened and what can be done about it; callers get to see it.
        param: the name of the request's field that caused the error, if there is one.
        retry_after_s: seconds after which a second try makes sense, if that is known.
    """

    code = "internal_error"

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


# -- the five families -------------------------------------------------------------------------


class InvalidInput(LecternError):
    """The caller must change the request."""

    code = "invalid_input"


class NotReady(LecternError):
    """The present state does not allow the request yet; it helps to wait."""

    code = "not_ready"


class Transient(LecternError):
    """A temporary fault: the same call may succeed later."""

    code = "transient"


class Permanent(LecternError):
    """A fault that trying again cannot remove."""

    code = "permanent"


class CorruptArtifact(LecternError):
    """Stored bytes differ from what was published: quarantine the artifact and build it again."""

    code = "corrupt_artifact"


# -- requests ----------------------------------------------------------------------------------


class UnsupportedParameter(InvalidInput):
    """A request asks by name for something that the server does not do."""

    code = "unsupported_parameter"


class AmbiguousDocument(InvalidInput):
    """Several of the tenant's documents have the name that a request gives."""

    code = "ambiguous_document"


class ModelNotFound(InvalidInput):
    """A chat names a model that is not served, or a document that is not there."""

    code = "model_not_found"


class AnswerNotFound(InvalidInput):
    """This tenant has no such earlier answer, or no longer."""

    code = "answer_not_found"


class ShapeError(InvalidInput):
    """Tensors do not fit together in shape, dtype, device or layout."""

    code = "shape_error"


class UnknownPlugin(InvalidInput):
    """A setting names a method for which there is no plug-in file."""

    code = "unknown_plugin"


class HeadPlanRejected(InvalidInput):
    """A head plan cannot be read, or belongs to another model."""

    code = "head_plan_rejected"


class Unauthorized(InvalidInput):
    """The request has no API key, or one that is unknown, expired or revoked."""

    code = "invalid_api_key"


class ScopeMissing(InvalidInput):
    """The API key is valid, but may not do this."""

    code = "insufficient_scope"


class MetricsClosed(InvalidInput):
    """This server shows its metrics to nobody, or not to this address."""

    code = "metrics_closed"


class MetricsTokenWrong(InvalidInput):
    """The request for metrics lacks the operator's token, or has another one."""

    code = "invalid_metrics_token"


class TenantSuspended(InvalidInput):
    """The API key is valid, but the operator has suspended its tenant."""

    code = "tenant_suspended"


class TenantNotFound(InvalidInput):
    """There is no tenant of this name."""

    code = "tenant_not_found"


class KeyNotFound(InvalidInput):
    """This tenant has no such API key; the same is said of another tenant's key."""

    code = "key_not_found"


class DocumentNotFound(InvalidInput):
    """This tenant has no such document.

    The message is the same for a document that does not exist and for another tenant's document,
    so that callers cannot find out which documents others have.
    """

    code = "document_not_found"

    def __init__(
        self,
        message: str = "There is no such document.",
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message, param=param, retry_after_s=retry_after_s)


class DocumentDeleted(DocumentNotFound):
    """The document was deleted while it was being read or asked about."""

    code = "document_deleted"


DELETED = "The document was deleted while it was being asked about."


class QuestionTooLong(InvalidInput):
    """The question does not fit into the model's context beside the document."""

    code = "question_too_long"


class ConversationTooLong(QuestionTooLong):
    """The question fits, but not together with the earlier turns of its conversation."""

    code = "conversation_too_long"


class EmptyQuestion(InvalidInput):
    """The question contains no text."""

    code = "empty_question"


class UploadTooLarge(InvalidInput):
    """The upload has more bytes than the server accepts."""

    code = "upload_too_large"


# -- documents ---------------------------------------------------------------------------------


class DocumentRejected(InvalidInput):
    """The file cannot be read as a document."""

    code = "document_rejected"


class EmptyDocument(DocumentRejected):
    """The file contains no text."""

    code = "empty_document"


class UnsupportedType(DocumentRejected):
    """The file is of a kind that Lectern does not read."""

    code = "unsupported_type"


class EncryptedPdf(DocumentRejected):
    """The PDF can only be opened with a password."""

    code = "encrypted_pdf"


class ArchiveBomb(DocumentRejected):
    """An archive unpacks to more than the limits allow."""

    code = "archive_bomb"


class UnknownEncoding(DocumentRejected):
    """The text's character encoding cannot be determined."""

    code = "unknown_encoding"


class DocumentTooLong(DocumentRejected):
    """The document has more tokens than the model's context holds."""

    code = "document_too_long"


class ReadingTimeout(DocumentRejected):
    """The document was not read by the deadline that follows from its length."""

    code = "reading_timeout"


class DocumentTooLargeForGpu(InvalidInput):
    """The GPU's memory can never hold this document beside the model."""

    code = "document_too_large_for_gpu"


class DocumentTooLargeForMemory(InvalidInput):
    """The document's cache is larger than the memory that all documents together may have."""

    code = "document_too_large_for_memory"


class OriginalMissing(Permanent):
    """The uploaded file of a document is no longer stored; only a new upload helps."""

    code = "original_missing"


class DocumentFailed(InvalidInput):
    """The document could not be read; the message contains the code and message of the reason."""

    code = "document_failed"


# -- states ------------------------------------------------------------------------------------


class DocumentNotReady(NotReady):
    """The document is still being read."""

    code = "document_not_ready"


class CacheStale(NotReady):
    """The stored cache was made by another model or with other settings; it is being rebuilt."""

    code = "cache_stale"


class CacheRebuilding(NotReady):
    """The stored cache was damaged; it is being rebuilt."""

    code = "cache_rebuilding"


class PinsExceedMemory(NotReady):
    """A document does not fit into memory beside those that are pinned; one has to be unpinned."""

    code = "pins_exceed_memory"


class DocumentPinned(NotReady):
    """A pinned document stays in memory until it is unpinned."""

    code = "document_pinned"


# -- temporary faults --------------------------------------------------------------------------


class TooManyQuestions(Transient):
    """The queue of waiting questions is full."""

    code = "too_many_questions"


class TooManyRequests(Transient):
    """One key has as many requests, uploads or event streams under way as one key may have."""

    code = "too_many_requests"


class RateLimited(Transient):
    """A tenant or a key has used what it may use in the present minute or day."""

    code = "rate_limit_exceeded"


class QuotaExceeded(Transient):
    """A tenant or a key has as many documents, bytes or waiting jobs as it may have."""

    code = "quota_exceeded"


class QuestionTimeout(Transient):
    """The answer took longer than the server allows."""

    code = "question_timeout"


class GpuBusy(Transient):
    """The GPU has no free memory at the moment."""

    code = "gpu_busy"


class MemoryFull(Transient):
    """The memory for documents is taken by pinned documents and by those in use."""

    code = "memory_full"


class ModelChanged(Transient):
    """The model's files were changed under a running process, which has to be restarted."""

    code = "model_changed"


class StorageFull(Transient):
    """No space is left on the storage device."""

    code = "storage_full"


class DatabaseUnavailable(Transient):
    """The SQL database does not answer."""

    code = "database_unavailable"


class Busy(Transient):
    """The database is locked by another writer, or the server has no room for more requests."""

    code = "busy"


class StepFailed(Transient):
    """A forward pass failed for a reason of the server's own; its questions end, others go on."""

    code = "step_failed"


class LeaseLost(Transient):
    """Another worker owns this job now, so this one must stop at once."""

    code = "lease_lost"


class TurnEnded(Transient):
    """A document took longer than expected while others waited; it is read from the start later."""

    code = "turn_ended"


class ShuttingDown(Transient):
    """The server is stopping."""

    code = "shutting_down"


# -- work that nobody wants any more -----------------------------------------------------------


class CallerGone(Permanent):
    """Nobody waits for the answer any more, so the work on it was stopped."""

    code = "caller_gone"


class JobCancelled(Permanent):
    """The job of reading a document was cancelled while a worker ran it."""

    code = "cancelled"


# -- models ------------------------------------------------------------------------------------


class EngineFault(Permanent):
    """The model computes nonsense, though no operation fails; only a restart may help."""

    code = "engine_fault"


class UnsupportedModel(Permanent):
    """The model cannot be served exactly; the message says why."""

    code = "unsupported_model"


class NonFiniteNumbers(Permanent):
    """The model computed infinite or undefined numbers; the message names the layer."""

    code = "non_finite_numbers"
