"""What every store offers: protocols and the values that cross them."""
