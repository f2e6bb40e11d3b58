"""The reading room: pages on which people upload documents, ask, and see where answers come from.

Its pages show what the API's own functions return, and their scripts call the API itself with the
cookie of the session.
"""
