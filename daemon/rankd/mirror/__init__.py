"""What a service remembers of the records: columns, kept up from change to change. No SQL, no ``await``, no clock."""
