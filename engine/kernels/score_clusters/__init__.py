"""Centroid lookup: how much attention each cluster's average key would get."""

from engine.kernels.score_clusters.op import log_cluster_scores

__all__ = ["log_cluster_scores"]
