"""Results whose lengths depend on the data: masks, selections, sets and unique values."""
