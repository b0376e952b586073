"""POSTs of the control plane that come again under a key, and get the first answer."""
