"""The bundled reader: a small model that finds facts in long documents, and how it was made."""
