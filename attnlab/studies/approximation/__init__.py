"""How near each family of structured matrices comes to given matrices."""
