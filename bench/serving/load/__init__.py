"""Load on a real server over HTTP, by workloads that others have published and by our own."""
