"""Assignment of points to the nearest of many centroids: the costly half of K-means."""

from engine.kernels.nearest_centroids.op import nearest_centroids

__all__ = ["nearest_centroids"]
