"""What several algorithms share: losses and steps, features, default values."""
