"""Errors, settings, logging and plug-in discovery; imports nothing else of ours."""
