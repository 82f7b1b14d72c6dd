"""The OpenAPI document, made of the table of endpoints, and the schemas and parameters that it refers to.

Imports every room that declares endpoints, for the limits and patterns that they enforce. Only `api.app` imports it.
"""
