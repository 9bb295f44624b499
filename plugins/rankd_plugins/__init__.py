"""The policies that come with rankd. Each is found by entry points, as any third party's is."""
