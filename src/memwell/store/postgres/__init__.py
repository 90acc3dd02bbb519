"""A memory on PostgreSQL with pgvector: one server for many agents and tenants.

The tenant is the first column of every row and the partition key of every table, and every
statement names it. So a distributed PostgreSQL answers from one shard.
"""
