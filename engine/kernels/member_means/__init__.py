"""Weighted means of clusters: the other half of K-means."""

from engine.kernels.member_means.op import member_means

__all__ = ["member_means"]
