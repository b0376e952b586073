"""Members of a tenant, and invitations."""
