"""The whole error tree of the project.

Five families say what to do about an error; `code` says what happened. Nothing here knows HTTP: the
app owns statuses, workers own retries. A message is one or two sentences for the person who asked.
"""


class LecternError(Exception):
    """Base of every error that this project raises on purpose.

    Args:
        message: what happened and what to do about it, fit for the caller's eyes.
        param: name of the offending input field, if one is to blame.
        retry_after_s: seconds after which a second try makes sense, if known.
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
    """The state does not allow it yet; waiting helps."""

    code = "not_ready"


class Transient(LecternError):
    """A passing fault: the same call may succeed later."""

    code = "transient"


class Permanent(LecternError):
    """Trying again cannot help."""

    code = "permanent"


class CorruptArtifact(LecternError):
    """Stored bytes are not what was published: quarantine and rebuild."""

    code = "corrupt_artifact"


# -- requests ----------------------------------------------------------------------------------


class ShapeError(InvalidInput):
    """Tensors disagree in shape, dtype, device or layout."""

    code = "shape_error"


class UnknownPlugin(InvalidInput):
    """A setting names a method that no plug-in file provides."""

    code = "unknown_plugin"


class HeadPlanRejected(InvalidInput):
    """A head plan cannot be read, or is for another model."""

    code = "head_plan_rejected"


class Unauthorized(InvalidInput):
    """No API key, or one that is unknown, expired or revoked."""

    code = "invalid_api_key"


class DocumentNotFound(InvalidInput):
    """No such document for this tenant."""

    code = "document_not_found"


class DocumentDeleted(DocumentNotFound):
    """The document was deleted while it was being asked about."""

    code = "document_deleted"


class QuestionTooLong(InvalidInput):
    """The question does not fit beside the document."""

    code = "question_too_long"


class EmptyQuestion(InvalidInput):
    """The question holds no text."""

    code = "empty_question"


class UploadTooLarge(InvalidInput):
    """The upload is over the byte limit."""

    code = "upload_too_large"


# -- documents ---------------------------------------------------------------------------------


class DocumentRejected(InvalidInput):
    """The file cannot be read as a document."""

    code = "document_rejected"


class EmptyDocument(DocumentRejected):
    """The file holds no text."""

    code = "empty_document"


class UnsupportedType(DocumentRejected):
    """The file is of no kind that can be read."""

    code = "unsupported_type"


class EncryptedPdf(DocumentRejected):
    """The PDF asks for a password."""

    code = "encrypted_pdf"


class ArchiveBomb(DocumentRejected):
    """An archive unpacks to more than the limits allow."""

    code = "archive_bomb"


class UnknownEncoding(DocumentRejected):
    """The text's character encoding cannot be told."""

    code = "unknown_encoding"


class DocumentTooLong(DocumentRejected):
    """The document has more tokens than the model's context holds."""

    code = "document_too_long"


class DocumentTooLargeForGpu(InvalidInput):
    """The GPU's memory can never hold this document beside the model."""

    code = "document_too_large_for_gpu"


class OriginalMissing(Permanent):
    """The stored original of a document is gone; only a new upload helps."""

    code = "original_missing"


class DocumentFailed(InvalidInput):
    """The document could not be read; its own code and sentence are in the message."""

    code = "document_failed"


# -- states ------------------------------------------------------------------------------------


class DocumentNotReady(NotReady):
    """The document is still being read."""

    code = "document_not_ready"


class CacheStale(NotReady):
    """The stored cache belongs to another model or other settings; it is being rebuilt."""

    code = "cache_stale"


class CacheRebuilding(NotReady):
    """The stored cache was damaged; it is being rebuilt."""

    code = "cache_rebuilding"


# -- passing faults ----------------------------------------------------------------------------


class TooManyQuestions(Transient):
    """The queue of waiting questions is full."""

    code = "too_many_questions"


class QuestionTimeout(Transient):
    """The answer took longer than the server waits for one."""

    code = "question_timeout"


class GpuBusy(Transient):
    """The GPU has no memory left at the moment."""

    code = "gpu_busy"


class StorageFull(Transient):
    """No space is left on the storage device."""

    code = "storage_full"


class DatabaseUnavailable(Transient):
    """The SQL database does not answer."""

    code = "database_unavailable"


class Busy(Transient):
    """Another writer holds the database."""

    code = "busy"


class LeaseLost(Transient):
    """Another worker owns this job now; stop at once."""

    code = "lease_lost"


class ShuttingDown(Transient):
    """The server is stopping."""

    code = "shutting_down"


# -- models ------------------------------------------------------------------------------------


class UnsupportedModel(Permanent):
    """The model cannot be served exactly; the message says why."""

    code = "unsupported_model"


class Cancelled(Permanent):
    """The caller went away."""

    code = "cancelled"
