"""The data `fashion-mnist`: where its files lie, what they hold, how they are fetched and how they are loaded."""
