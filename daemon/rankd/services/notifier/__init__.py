"""The notifier: sends what jobs notify their users of."""
