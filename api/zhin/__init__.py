"""Zhin's HTTP session host, for its console client: the same words, over sessions of Layby.

`docs/zhin.md` tells users of it. Imports what `api.routes` may import, and that room.
"""
