"""The face of Amazon SQS: its signatures, protocols and actions over the same delivery."""
