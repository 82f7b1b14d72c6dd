"""Following all sessions of a tenant over the feeds of the partitions, and noticing what a store has lost.

May import what `log` may, and `log`.
"""
