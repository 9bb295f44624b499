"""The records that services read when they start, and follow from then on."""
