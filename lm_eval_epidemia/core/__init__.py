"""Helpers that every room may use: errors, paths, sealed folders, notices, console output."""
