"""What commands share: options, where rankd is, tables, times, output."""
