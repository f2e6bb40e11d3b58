"""From uploaded bytes to plain text with page and character spans; knows nothing of tensors."""
