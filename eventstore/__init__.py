"""The write side: rules, commits, logs, feeds, deadlines, the embedded engine, and the Redis client they all use.

`event_store.EventStore` is the face of the package. Rooms import in one direction: `domain` <- `support` <-
`redis_keys` <- `redis_client` <- `commit` <- `log` <- `feed` <- `event_store`; `api_keys` imports `redis_client`, and
`embedded` only `settings`. Nothing here imports `projections`, `api` or `cli`.
"""
