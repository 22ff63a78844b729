"""One pass spread over the workers of a cluster, with the numbers of the sequential one."""

from pronk.cluster.pool import ClusterPool
from pronk.cluster.run import ClusterPass

__all__ = ["ClusterPass", "ClusterPool"]
