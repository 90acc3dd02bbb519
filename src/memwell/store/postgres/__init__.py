"""The same memory on PostgreSQL with pgvector: one server, many agents and tenants.

Every row begins with its tenant, every table is partitioned by it, and every statement names it,
so that a distributed PostgreSQL answers from one shard.
"""
