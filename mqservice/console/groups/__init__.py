"""Consumer groups: the list, one group and its health, its forms, the reset of its offsets."""
