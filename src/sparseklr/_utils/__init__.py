"""General tools: threads, memory, progress, files and messages."""
