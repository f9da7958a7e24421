"""What is trained on: records and canaries, loaders by name, one file per format, augmentation."""
