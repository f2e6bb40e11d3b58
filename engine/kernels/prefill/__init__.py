"""Many tokens at a time: the document's prefill, and a question's."""
