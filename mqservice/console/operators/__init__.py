"""The operator's pages: processes, engine, read-only mode."""
