"""The entry page of a namespace."""
