"""The queue of documents to be read: leases, fencing and liveness of workers."""
