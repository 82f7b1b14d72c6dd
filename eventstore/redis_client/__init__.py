"""Scripts and commands to the engines of one store: which engine serves a key, connections, pipelines, retries, clocks.

Knows nothing of sessions. May import `domain.errors`, `support`, `redis_keys` and `settings`.
"""
