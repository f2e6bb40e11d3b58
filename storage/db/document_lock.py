"""The lock by which a transaction that writes about a document keeps it from being deleted."""

from sqlalchemy import bindparam, select

from storage.db.tables import Document

# Finds the document `document_id`, which nobody can delete before the transaction's end then.
STILL_THERE = (
    select(Document.id)
    .where(Document.id == bindparam("document_id"))
    .with_for_update(read=True, key_share=True)
)
