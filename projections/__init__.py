"""The read side: snapshots, lists and the inbox, folded from the events and written beside them in Redis.

`read_models.ReadModels` is the face of the package. Rooms import in one direction: `redis_keys` <- `fold` <-
`projector` <- `queries` <- `read_models`. May import `eventstore`, and neither `api` nor `cli`.
"""
