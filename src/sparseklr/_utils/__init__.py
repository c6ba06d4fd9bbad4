"""Utilities that do not depend on the models: threads, memory, progress bars, files and messages."""
