"""Training. Only here and below is torch imported."""
