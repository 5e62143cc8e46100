"""P4Runtime (API v1.4) over gRPC for the embedded switch.

One module per idea: `server` (the gRPC service), `arbitration` and `stream` (who may write),
`device` and `pipeline` (what runs), `schema` (P4Info against the program), `translate` (P4Info ids
and byte strings to the data plane's names and integers), and one module per kind of entity.
"""
