from aws.dynamo import dynamodb, dynamodb_local, dynamodb_table  # noqa: F401
