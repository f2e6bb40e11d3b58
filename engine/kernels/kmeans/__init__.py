"""The two halves of an iteration of K-means."""
