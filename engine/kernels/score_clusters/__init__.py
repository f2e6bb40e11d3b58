"""Centroid lookup: how much attention each cluster's average key would get."""

from engine.kernels.score_clusters.aggregate import AGGREGATIONS, aggregate
from engine.kernels.score_clusters.op import log_cluster_scores

__all__ = ["AGGREGATIONS", "aggregate", "log_cluster_scores"]
