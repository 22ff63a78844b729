"""One pass spread over the workers of a cluster, with the numbers of the sequential one."""

from pronk.cluster.run import ClusterPass

__all__ = ["ClusterPass"]
