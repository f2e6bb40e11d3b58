"""The two halves of an iteration of K-means: assignment of points, and means of clusters."""
