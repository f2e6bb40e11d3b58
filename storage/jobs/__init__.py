"""The queue of documents to be read: leases, fencing tokens, and which workers are alive."""
