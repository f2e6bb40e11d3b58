"""Claim a job, read its document, publish the artifact."""
