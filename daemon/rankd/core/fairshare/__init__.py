"""Who has had how much: the account tree, usage and its decay, the fair-share algorithms."""
