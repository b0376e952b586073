"""The API's description of itself: OpenAPI, AsyncAPI, llms.txt and the pages built from them."""
