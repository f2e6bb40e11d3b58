"""What can be limited, in three kinds: stocks, places, and what is used in a span of time.

A further resource is a member here, and for a stock a query in `storage.quotas.stocks`.
"""

from enum import StrEnum


class Resource(StrEnum):
    """Something of which a tenant or a key may use so much.

    Attributes:
        BYTES: of originals and stored caches. Caches of documents that are accepted are written
            whatever the limit is; it is the next upload that is refused.
        DOCUMENTS: that are stored.
        QUEUED_JOBS: documents that wait or are being read.
        QUESTIONS: that are under way at the same time.
        TOKENS: of questions and answers, in a day that begins at midnight UTC.
        REQUESTS: with a valid key, in a minute of the clock.
    """

    BYTES = "bytes"
    DOCUMENTS = "documents"
    QUEUED_JOBS = "queued_jobs"
    QUESTIONS = "questions_at_once"
    TOKENS = "tokens_per_day"
    REQUESTS = "requests_per_minute"

    @property
    def window_s(self) -> int | None:
        """Seconds of the span of time in which use is counted; None if it is no such resource."""
        return {Resource.TOKENS: 24 * 3600, Resource.REQUESTS: 60}.get(self)


STOCKS = (Resource.BYTES, Resource.DOCUMENTS, Resource.QUEUED_JOBS)
WINDOWS = tuple(resource for resource in Resource if resource.window_s is not None)
