"""How much groups have still to do: not delivered, in flight, or waiting for a retry."""
