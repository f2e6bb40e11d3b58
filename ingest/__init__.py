"""Text extraction: from an uploaded file to plain text with the character spans of its pages."""
