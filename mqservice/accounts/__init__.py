"""Identity and access: users, tenants, namespaces, members with roles, API keys."""
