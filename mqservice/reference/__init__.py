"""What the API says of itself: OpenAPI, AsyncAPI, llms.txt and the pages made of them."""
