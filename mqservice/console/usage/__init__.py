"""Usage and quotas."""
