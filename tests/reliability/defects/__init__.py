"""Each defect of the reliability review, through the command line, HTTP and the public API.

The tests also run on the version that was reviewed, where they show what was wrong.
"""
