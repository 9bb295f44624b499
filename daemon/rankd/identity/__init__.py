"""Who may reach what at the broker: keys, signed claims of accounts and users, credentials, a site's secret."""
