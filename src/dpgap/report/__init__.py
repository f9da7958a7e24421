"""What an audit found, as a page to hand over: data first, then charts, then one self-contained file."""
