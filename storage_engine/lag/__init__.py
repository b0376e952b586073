"""The lag of groups: messages not delivered, in flight, or waiting for a retry."""
