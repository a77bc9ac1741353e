from aws.dynamo import dynamodb, dynamodb_server, dynamodb_table  # noqa: F401
