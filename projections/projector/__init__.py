"""Bringing the read models of a partition up to date with its feed, in the background or on demand; rebuilding them.

May import `redis_keys` and `fold`, and `eventstore`.
"""
