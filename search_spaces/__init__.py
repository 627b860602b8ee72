"""What may vary: the YAML files of tables, searches and profiles, and the code that reads them."""
