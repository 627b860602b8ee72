"""Many drivers and live pages on one large ledger in PostgreSQL: what each costs, and what the database has to do."""
