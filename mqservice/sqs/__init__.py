"""The SQS face: what AWS's SDKs say to Amazon SQS, said to topics and groups."""
