"""A service's memory of the records: columns that follow their changes. No SQL, no ``await``, no clock."""
