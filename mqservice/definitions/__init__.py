"""The topics and groups of a namespace as one document, to save, compare and import."""
