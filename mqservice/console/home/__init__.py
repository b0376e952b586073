"""The entry page of a namespace, and its search."""
