"""What of HTTP every route shares: paths, headers, queries, keys, bodies' room, problems.

Imports no other room of `api`.
"""
