"""Text becomes vectors, by whichever provider the user chose."""
