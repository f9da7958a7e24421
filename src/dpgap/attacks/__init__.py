"""How membership is scored: higher means "it was there"; one attack a file."""
