"""Answering the questions of readers from the read models, with everything that was acknowledged before the question.

May import `redis_keys`, `fold` and `projector`, and `eventstore`.
"""
