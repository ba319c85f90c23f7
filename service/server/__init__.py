"""Sockets, the HTTP protocol, limits and API keys."""
