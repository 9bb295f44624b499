"""Commands under "Services": each service alone, their health, the database."""
