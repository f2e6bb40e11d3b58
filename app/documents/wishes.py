"""What a caller wants of a document that is uploaded."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from app.documents.schemas import MOST_PAIRS, Metadata
from app.documents.upload import Upload
from common.errors import InvalidInput

_METADATA: TypeAdapter[Metadata] = TypeAdapter(Metadata)


@dataclass(frozen=True)
class UploadWishes:
    """What an upload says beside its file.

    Attributes:
        ttl_s: seconds after which the document is deleted; None for what its tenant says.
        metadata: what is noted on it; None for nothing.
        priority: of its reading among those of its tenant; 0 is usual.
        replaces: id or name of the document whose new version it is; None for none.
    """

    ttl_s: int | None = None
    metadata: Mapping[str, str] | None = None
    priority: int = 0
    replaces: str | None = None


def metadata_of(file: Upload) -> Mapping[str, str] | None:
    """Return the form's field `metadata`, a JSON object of texts; None if there is none.

    Raises: InvalidInput.
    """
    given = file.fields.get("metadata")
    if given is None:
        return None
    try:
        return _METADATA.validate_json(given)
    except ValidationError as error:
        raise InvalidInput(
            f"metadata: a JSON object of at most {MOST_PAIRS} texts; names have at most 64 and "
            "texts 512 characters.",
            param="metadata",
        ) from error
