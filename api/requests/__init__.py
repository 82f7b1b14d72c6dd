"""How a route is declared, what is checked before its handler, and how bodies are read and answers made.

Imports `api.services` and the rooms below it.
"""
