"""Who may enter: users, tenants, namespaces, members with roles, API keys."""
