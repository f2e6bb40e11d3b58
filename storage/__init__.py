"""Bytes and rows: SQL tables, jobs, blobs, artifacts; knows nothing of tensors."""

from storage.storage import Storage as Storage
from storage.storage import open_storage as open_storage
