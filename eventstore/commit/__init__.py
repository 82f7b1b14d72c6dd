"""The write path: the commands of a session are decided in batches, and each batch is committed by one script call.

Also what becomes due by itself. May import `domain`, `support`, `redis_keys` and `redis_client`.
"""
