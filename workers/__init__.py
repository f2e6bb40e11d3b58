"""Workers claim jobs, read their documents and publish the artifacts."""
