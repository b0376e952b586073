"""What users of the console do not see of the messages of a namespace."""
