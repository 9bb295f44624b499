"""The policies that come with rankd. They are found by entry points, like those of third parties."""
