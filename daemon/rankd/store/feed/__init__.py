"""What services read at their start and follow from then on."""
