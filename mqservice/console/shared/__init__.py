"""What all pages of the console use."""
