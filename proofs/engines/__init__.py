"""Redis processes to break: single ones, clusters, and masters that Sentinels watch. All on loopback.

    with Cluster(folder, primaries=3, replicas=1) as cluster:
        serve(cluster.url); cluster.kill_primary(0)

Everything here blocks, so that it can be used from any event loop, or none: call it in a thread where one must go on.
The processes stay in the process group of whoever starts them, so that a signal to the group ends them too.
"""

from proofs.engines.cluster import Cluster
from proofs.engines.sentinels import MASTER, Sentinels
from proofs.engines.single import Engine, EngineClient, eventually, free_port

__all__ = ["MASTER", "Cluster", "Engine", "EngineClient", "Sentinels", "eventually", "free_port"]
