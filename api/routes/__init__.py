"""The routes of Layby's own protocol, a resource a module: handlers, and the endpoints that declare them.

Imports `api.requests` and the rooms below it; of `api.transport` only what writes a stream.
"""
