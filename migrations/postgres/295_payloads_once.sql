-- A payload of a source is kept once, by a keyed hash of its bytes, and of a source the newest alone: a stranger who may send to it unsigned would fill
-- the disk otherwise. Null: the payload was kept before, and is gone after 48 hours.
alter table source_payloads add column payload_hash bytea check (length(payload_hash) = 32);
create unique index source_payloads_once on source_payloads (source_id, payload_hash);
grant select (payload_id, client_id, source_id, received_at, outcome, code, payload_hash), update (received_at, outcome, code), delete on source_payloads
  to tributary_edge;
-- An erasure and the purge lock rows in the order of edges, or leave locked ones, before they delete: to lock takes this right.
grant update (received_at) on source_payloads to tributary_app, tributary_keeper;
