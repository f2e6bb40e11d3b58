"""Errors, states, formats, logging and plug-in discovery; imports no other package of ours."""
