"""pronk's learners behind the interfaces of other libraries."""
