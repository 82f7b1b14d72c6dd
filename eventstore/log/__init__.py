"""Reading and following one session: pages, long ranges, tails, notifications of commits, and the hash chain.

May import what `commit` may, and `commit`.
"""
