"""The topics and groups of a namespace as one document, to keep, to compare and to import."""
