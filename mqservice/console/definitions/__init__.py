"""Export and import of a namespace's topics and groups."""
