"""What the API answers, a frozen class each: routes give them, OpenAPI and docs/api.md list them, pages read them."""
