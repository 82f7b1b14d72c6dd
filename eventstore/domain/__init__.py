"""The rules of sessions and calls: given what is recorded, when a command, then events and an answer, or a refusal.

Pure: no I/O, no clock, no await; time and new names are passed in. Imports nothing of Layby outside this room.
"""
