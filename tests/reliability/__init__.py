"""The defects of a reliability review, each with a test through a public interface."""
