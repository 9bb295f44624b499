"""Fair share: the account tree, usage and its decay, and the algorithms."""
